package rootfs

// Hostname is the name of every guest: one that its /etc/hosts knows, so that sudo needn't look it up.
const Hostname = "sandbox"

// etcFiles are the files that both recipes have. The name server refuses at once, because nothing listens there: without a gateway
// there is no network, and a program should learn that in milliseconds rather than after a resolver's timeouts.
func etcFiles() map[string]string {
	return map[string]string{
		"etc/hostname":    Hostname + "\n",
		"etc/hosts":       "127.0.0.1 localhost\n127.0.1.1 " + Hostname + "\n::1 localhost ip6-localhost ip6-loopback\n",
		"etc/resolv.conf": "nameserver 127.0.0.1\noptions timeout:1 attempts:1\n",
	}
}
