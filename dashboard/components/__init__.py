"""The page's own components; their JavaScript and CSS are files in this folder."""
