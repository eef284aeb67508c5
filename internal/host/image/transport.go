package image

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"syscall"
	"time"
)

// The times a registry has.
const (
	dialTimeout   = 15 * time.Second
	tlsTimeout    = 15 * time.Second
	answerTimeout = time.Minute // from a request to the head of its answer
	maxHeader     = 64 << 10    // bytes of that head
)

// errForbiddenAddress is returned for addresses that no registry has.
var errForbiddenAddress = errors.New("no registry is at such an address")

// policy decides what a pull may talk to.
type policy struct {
	host  string   // of the reference, with its port
	plain []string // hosts that may be spoken to without TLS
	next  http.RoundTripper
}

func newPolicy(host string, insecure []string) policy {
	p := policy{host: host, plain: insecure}
	t := &http.Transport{
		Proxy:       http.ProxyFromEnvironment,
		DialContext: (&net.Dialer{Timeout: dialTimeout, Control: p.control}).DialContext,

		ForceAttemptHTTP2: true, TLSHandshakeTimeout: tlsTimeout, ResponseHeaderTimeout: answerTimeout, MaxResponseHeaderBytes: maxHeader,
		IdleConnTimeout: answerTimeout, MaxConnsPerHost: 4,
	}
	p.next = t
	return p
}

// mayBePlain tells whether a host may be spoken to without TLS: this machine, and what the configuration lists.
func (p policy) mayBePlain(host string) bool {
	return isLoopback(host) || slices.Contains(p.plain, host)
}

// RoundTrip refuses requests without TLS wherever they are redirected.
func (p policy) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Scheme != "https" && !p.mayBePlain(r.URL.Host) {
		return nil, fmt.Errorf("%s doesn't speak TLS: list it in insecure_registries if that's all right", r.URL.Host)
	}
	return p.next.RoundTrip(r)
}

// control looks at the address that a name turned out to have.
func (p policy) control(_, address string, _ syscall.RawConn) error {
	at, err := netip.ParseAddrPort(address)
	if err != nil {
		return err
	}
	ip := at.Addr().Unmap()
	switch {
	case ip.IsLoopback() && isLoopback(p.host): // asked for by name
		return nil
	case ip.IsLoopback(), ip.IsUnspecified(), ip.IsLinkLocalUnicast(), ip.IsMulticast(), ip == metadataV6:
		return fmt.Errorf("%s: %w", ip, errForbiddenAddress)
	}
	return nil
}

// metadataV6 is where a cloud serves its machines' credentials when they have no IPv4.
var metadataV6 = netip.MustParseAddr("fd00:ec2::254")

// isLoopback tells whether a host, with or without a port, is this machine by its name.
func isLoopback(host string) bool {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	if host == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.IsLoopback()
}
