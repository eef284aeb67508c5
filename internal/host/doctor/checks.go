package doctor

// checks is the list of all checks, in the order in which a machine is usually mended.
var checks = []check{
	{"root", "Root", lookRoot},
	{"kernel", "Linux kernel", lookKernel},
	{"cgroups", "Control groups", lookCgroups},
	{"tun", "Tap devices", lookTun},
	{"nftables", "Namespaces and packet filter", lookNftables},
	{"loop", "Loop devices", lookLoop},
	{"btrfs", "btrfs", lookBtrfs},
	{"qemu", "QEMU", lookQEMU},
	{"kvm", "Hardware virtualisation", lookKVM},
	{"firecracker", "Firecracker", lookFirecracker},
	{"guest-kernel", "Guests' kernel", lookGuestKernel},
	{"postgresql", "PostgreSQL server", lookPostgres},
	{"templates", "Tools for template builds", lookTemplateTools},
	{"disk", "Disk space", lookDisk},
	{"volume", "Volume", lookVolume},
	{"memory", "Memory", lookMemory},
	{"clock", "Clock", lookClock},
}
