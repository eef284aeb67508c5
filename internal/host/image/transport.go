package image

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/space-platform/space/internal/address"
)

// The times a registry has.
const (
	dialTimeout   = 15 * time.Second
	tlsTimeout    = 15 * time.Second
	answerTimeout = time.Minute // from a request to the head of its answer
	maxHeader     = 64 << 10    // bytes of that head
)

// ErrAddress is wrapped for addresses that no registry of the internet has.
var ErrAddress = errors.New("its address is none of the public internet, and allowed_registries doesn't name it")

// errPlain is returned for requests that would go without TLS.
var errPlain = errors.New("the registry, or where it redirects to, doesn't speak TLS: the operator can list it in insecure_registries")

// policy decides what a pull may talk to. A name is judged by the address that it turned out to have when it's connected to, wherever a
// registry sends the pull.
type policy struct {
	plain   []string // those that may be spoken to without TLS, wherever they are: HOST or HOST:PORT
	allowed []string // those that may be at an address that isn't public: HOST, HOST:PORT or the network
	proxy   func(*http.Request) (*url.URL, error)
	next    http.RoundTripper
}

func newPolicy(insecure, allowed []string) policy {
	p := policy{plain: insecure, allowed: allowed, proxy: http.ProxyFromEnvironment}
	p.next = &http.Transport{
		Proxy: p.proxy, DialContext: p.dial,

		ForceAttemptHTTP2: true, TLSHandshakeTimeout: tlsTimeout, ResponseHeaderTimeout: answerTimeout, MaxResponseHeaderBytes: maxHeader,
		IdleConnTimeout: answerTimeout, MaxConnsPerHost: 4,
	}
	return p
}

// CheckAllowed refuses what can't be an entry of a list of allowed registries.
func CheckAllowed(allowed []string) error {
	for _, a := range allowed {
		if _, err := netip.ParsePrefix(a); strings.Contains(a, "/") && err != nil {
			return fmt.Errorf("%q is neither HOST, HOST:PORT nor a network", clip(a))
		}
	}
	return nil
}

// mayBePlain tells whether a host may be spoken to without TLS.
func (p policy) mayBePlain(host string) bool { return listed(p.plain, host) }

// RoundTrip refuses requests without TLS wherever they are redirected, and those that a proxy would bring where they mayn't go.
func (p policy) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Scheme != "https" && !p.mayBePlain(r.URL.Host) {
		return nil, errPlain
	}
	via, err := p.proxy(r)
	if err != nil {
		return nil, err
	}
	if via == nil {
		return p.next.RoundTrip(r)
	}
	// What a name means there is for the proxy to find out; who set it answers for where it goes.
	if ip, err := netip.ParseAddr(r.URL.Hostname()); err == nil {
		if err := p.check(r.URL.Host, ip); err != nil {
			return nil, err
		}
	}
	return p.next.RoundTrip(r.WithContext(context.WithValue(r.Context(), viaProxy{}, true)))
}

// viaProxy marks the context of a request that a proxy takes: the connection is to an address that the operator has chosen.
type viaProxy struct{}

// dial connects to HOST:PORT if the address that it has may be.
func (p policy) dial(ctx context.Context, network, host string) (net.Conn, error) {
	d := net.Dialer{Timeout: dialTimeout}
	if ctx.Value(viaProxy{}) == nil {
		d.Control = func(_, address string, _ syscall.RawConn) error {
			at, err := netip.ParseAddrPort(address)
			if err != nil {
				return err
			}
			return p.check(host, at.Addr())
		}
	}
	return d.DialContext(ctx, network, host)
}

// check says why a host mayn't be at an address.
func (p policy) check(host string, ip netip.Addr) error {
	public := address.Public(ip) && !ours(ip)
	private := address.Private(ip) || address.Public(ip)
	if public || private && p.allows(host, ip.Unmap()) {
		return nil
	}
	return fmt.Errorf("%s: %w", host, ErrAddress) // not the address: what names mean here is nobody's business
}

// allows tells whether the operator has named a host, or the network that an address is in.
func (p policy) allows(host string, ip netip.Addr) bool {
	return listed(p.plain, host) || listed(p.allowed, host) || slices.ContainsFunc(p.allowed, func(entry string) bool {
		network, err := netip.ParsePrefix(entry)
		return err == nil && network.Contains(ip)
	})
}

// listed tells whether a list names a host, with its port or with any.
func listed(list []string, host string) bool {
	name, _, err := net.SplitHostPort(host)
	return slices.Contains(list, host) || err == nil && slices.Contains(list, name)
}

// ours tells whether an address is one of this machine's, which may be a public one.
func ours(ip netip.Addr) bool {
	own, err := net.InterfaceAddrs()
	if err != nil {
		return true // nobody knows
	}
	return slices.ContainsFunc(own, func(a net.Addr) bool {
		n, err := netip.ParsePrefix(a.String())
		return err == nil && n.Addr() == ip.Unmap()
	})
}
