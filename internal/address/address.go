// Package address says which addresses belong to the public internet. It's what keeps a name that somebody else chose from leading the
// platform's own processes into the network that they run in: it must be asked about the address that is connected to, not about the name.
package address

import (
	"net/netip"
	"slices"
)

// The addresses that aren't public, by what an operator may say about them.
var (
	// private are the networks that people build for themselves.
	private = prefixes("10.0.0.0/8", "100.64.0.0/10", "127.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "::1/128", "fc00::/7")

	// special are nobody's, everybody's, or the way to what a machine is told in confidence: link-local addresses, where clouds serve their
	// machines' credentials, multicast, documentation, tests, and what was withdrawn.
	special = prefixes(
		"0.0.0.0/8", "169.254.0.0/16", "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "198.18.0.0/15", "198.51.100.0/24", "203.0.113.0/24",
		"224.0.0.0/4", "240.0.0.0/4",
		"::/128", "100::/64", "2001::/32", "2001:db8::/32", "fe80::/10", "fec0::/10", "ff00::/8",
		"100.100.100.200/32", "168.63.129.16/32", "fd00:ec2::254/128", // clouds' metadata at addresses that look like others
	)

	// wrapping are the networks whose addresses have an IPv4 address in them, and where.
	wrapping = []struct {
		prefix netip.Prefix
		at     int
	}{{netip.MustParsePrefix("64:ff9b::/96"), 12}, {netip.MustParsePrefix("64:ff9b:1::/48"), 12}, {netip.MustParsePrefix("2002::/16"), 2}}
)

func prefixes(text ...string) []netip.Prefix {
	var out []netip.Prefix
	for _, t := range text {
		out = append(out, netip.MustParsePrefix(t))
	}
	return out
}

// Public reports whether an address is one of the public internet. An IPv4 address inside of an IPv6 one is looked at itself.
func Public(a netip.Addr) bool {
	a = unwrap(a)
	return a.IsValid() && !contains(private, a) && !contains(special, a)
}

// Private reports whether an address belongs to a network that people build for themselves, this machine's loopback included. Where the
// platform goes to such an address, an operator has allowed it. What is neither public nor private is never gone to.
func Private(a netip.Addr) bool {
	a = unwrap(a)
	return a.IsValid() && contains(private, a) && !contains(special, a)
}

func contains(list []netip.Prefix, a netip.Addr) bool {
	return slices.ContainsFunc(list, func(p netip.Prefix) bool { return p.Contains(a) })
}

// unwrap returns the address that traffic to a comes out at.
func unwrap(a netip.Addr) netip.Addr {
	a = a.Unmap().WithZone("")
	for _, w := range wrapping {
		if w.prefix.Contains(a) {
			b := a.As16()
			return netip.AddrFrom4([4]byte(b[w.at : w.at+4]))
		}
	}
	return a
}
