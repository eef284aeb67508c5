package link

// VsockPort is where a guest listens for its link in a machine with a vsock device. It's one of those that only root may take, so that no
// other program of the guest answers in the agent's place.
const VsockPort = 1000

// BuildArgument is an argument of the kernel of a machine that changes a template's disk: the guest leaves those of the image's files as they are that
// it would cover with a machine's own, so that they can be changed and removed.
const BuildArgument = "space.build=1"
