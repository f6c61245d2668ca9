// Memory and load of the machine in a few words. Pure.

const GIB = 2 ** 30;

/** {text, title} from what the engine tells (its `machine()`); both empty when it tells nothing. */
export function machineWords(machine) {
  const system = machine && machine.system;
  if (!system) return { text: "", title: "" };
  const used = system.memory_bytes - system.available_bytes;
  const short = [`CPU ${Math.round(system.cpu_percent)}\u00a0%`, `${gib(used)} of ${gib(system.memory_bytes)}\u00a0GiB`];
  const long = [`CPU load ${Math.round(system.cpu_percent)} % of ${system.cpus} processors`,
    `memory in use ${gib(used)} of ${gib(system.memory_bytes)} GiB`];
  if (machine.process) long.push(`the engine holds ${gib(machine.process.memory_bytes)} GiB`);
  if (machine.workers && machine.workers.count) long.push(`${machine.workers.count} worker processes hold ${gib(machine.workers.memory_bytes)} GiB`);
  for (const gpu of machine.gpus || []) {
    short.push(`GPU ${gib(gpu.used_bytes)} of ${gib(gpu.memory_bytes)}\u00a0GiB`);
    long.push(`${gpu.name}: ${gib(gpu.used_bytes)} of ${gib(gpu.memory_bytes)} GiB in use, load ${Math.round(gpu.percent ?? 0)} %`);
  }
  if (machine.disk) long.push(`${gib(machine.disk.free_bytes)} GiB of disk are free`);
  return { text: short.join(" · "), title: long.join("\n") };
}

function gib(bytes) {
  const value = bytes / GIB;
  return value < 10 ? value.toFixed(1) : value.toFixed(0);
}
