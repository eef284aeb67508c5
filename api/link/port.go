package link

// VsockPort is where a guest listens for its link in a machine with a vsock device. It's one of those that only root may take, so that no
// other program of the guest answers in the agent's place.
const VsockPort = 1000
