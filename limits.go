package space

// MinMemoryMiB is the least memory of a machine: with less, the smallest template doesn't boot (measured under QEMU with the kernels of
// both kinds). The control plane refuses less by the field's name, and a node checks it again.
const MinMemoryMiB = 96
