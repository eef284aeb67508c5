package address

import (
	"net/netip"
	"testing"
)

func TestPublicAndPrivate(t *testing.T) {
	for text, want := range map[string]struct{ public, private bool }{
		"1.1.1.1":                {public: true},
		"172.32.0.1":             {public: true},
		"2606:4700::1111":        {public: true},
		"::ffff:1.1.1.1":         {public: true},
		"64:ff9b::101:101":       {public: true},
		"2002:101:101::1":        {public: true},
		"10.1.2.3":               {private: true},
		"127.0.0.1":              {private: true},
		"::1":                    {private: true},
		"172.31.255.255":         {private: true},
		"192.168.0.1":            {private: true},
		"100.127.0.1":            {private: true},
		"fd12::1":                {private: true},
		"::ffff:127.0.0.1":       {private: true},
		"64:ff9b::7f00:1":        {private: true},
		"64:ff9b:1::a00:1":       {private: true},
		"2002:c0a8:1::":          {private: true},
		"0.0.0.0":                {},
		"0.1.2.3":                {},
		"::":                     {},
		"169.254.169.254":        {},
		"::ffff:169.254.169.254": {},
		"64:ff9b::a9fe:a9fe":     {},
		"fe80::1":                {},
		"fe80::1%lo":             {},
		"fd00:ec2::254":          {},
		"100.100.100.200":        {},
		"168.63.129.16":          {},
		"192.0.0.192":            {},
		"198.18.0.1":             {},
		"203.0.113.1":            {},
		"224.0.0.1":              {},
		"255.255.255.255":        {},
		"ff02::1":                {},
		"2001:0:1::1":            {},
		"2001:db8::1":            {},
	} {
		a := netip.MustParseAddr(text)
		if Public(a) != want.public || Private(a) != want.private {
			t.Errorf("%s is public %v, private %v; want %v, %v", text, Public(a), Private(a), want.public, want.private)
		}
	}
	if Public(netip.Addr{}) || Private(netip.Addr{}) {
		t.Error("no address is one")
	}
}
