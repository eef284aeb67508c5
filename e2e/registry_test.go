//go:build e2e

package e2e

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	gen "github.com/space-platform/space/api/gen/http"
	"github.com/space-platform/space/client"
)

// The login of the private registry.
const (
	robot    = "robot"
	password = "canary-registry-9f2b41c7"
)

// certificate makes a certificate for a name that this machine trusts until the test ends.
func certificate(t *testing.T, host string) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	what := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: host}, DNSNames: []string{host},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour), ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, what, what, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	trusted := "/etc/ssl/certs/space-" + platform.instance.Name + ".pem"
	if err := os.WriteFile(trusted, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.Remove(trusted); err != nil {
			t.Error(err)
		}
	})
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// privateRegistry serves an image by TLS at this machine's name, to those who log in.
func privateRegistry(t *testing.T, i v1.Image) (reference string) {
	t.Helper()
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	images := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if n, p, _ := r.BasicAuth(); n != robot || p != password {
			w.Header().Set("WWW-Authenticate", `Basic realm="images"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		images.ServeHTTP(w, r)
	}))
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.TLS = &tls.Config{Certificates: []tls.Certificate{certificate(t, host)}}
	s.StartTLS()
	t.Cleanup(s.Close)
	_, port, err := net.SplitHostPort(s.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	reference = net.JoinHostPort(host, port) + "/private/small:1"
	ref, err := name.ParseReference(reference)
	if err != nil {
		t.Fatal(err)
	}
	unchecked := &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}
	if err := remote.Write(ref, i, remote.WithAuth(&authn.Basic{Username: robot, Password: password}), remote.WithTransport(unchecked)); err != nil {
		t.Fatal(err)
	}
	return reference
}

// hollow serves an image's manifest and configuration without its layers.
func hollow(t *testing.T, i v1.Image) (reference string) {
	t.Helper()
	configuration, err := i.ConfigName()
	if err != nil {
		t.Fatal(err)
	}
	images := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	var withheld atomic.Bool
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if withheld.Load() && strings.Contains(r.URL.Path, "/blobs/") && !strings.HasSuffix(r.URL.Path, configuration.String()) {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		images.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	reference = strings.TrimPrefix(s.URL, "http://") + "/mine:1"
	ref, err := name.ParseReference(reference)
	if err == nil {
		err = remote.Write(ref, i)
	}
	if err != nil {
		t.Fatal(err)
	}
	withheld.Store(true)
	return reference
}

// TestPrivateRegistry builds from an image that only a login gives, at an address that the operator has allowed. Who knows what its layers are called
// doesn't get them, and the login is in no log.
func TestPrivateRegistry(t *testing.T) {
	i := smallImage(t)
	reference := privateRegistry(t, i)
	build := func(name, image string, login *gen.RegistryAuth) client.Operation {
		t.Helper()
		return buildTemplate(t, client.TemplateCreate{Name: &name, Image: &image, DiskMb: ptr(96), RegistryAuth: login})
	}
	for n, x := range map[string]struct {
		login *gen.RegistryAuth
		says  string
	}{
		"no-login":    {nil, "wants a login"},
		"wrong-login": {&gen.RegistryAuth{Username: ptr(robot), Password: ptr(password + "x")}, "refuses the login"},
	} {
		op := build(n, reference, x.login)
		if op.Status != gen.OperationStatusFailed || op.Error.Detail == nil || !strings.Contains(*op.Error.Detail, x.says) || strings.Contains(*op.Error.Detail, password) {
			t.Errorf("%s: %s, %+v", n, op.Status, op.Error)
		}
	}
	tpl := wantReady(t, build("private", reference, &gen.RegistryAuth{Username: ptr(robot), Password: ptr(password)}))
	runIn(t, create(t, "private"), client.SessionCreate{Shell: ptr("busybox id -u; echo $FROM")}).want(t, 0, "4711\nimage\n", "")
	op := build("thief", hollow(t, i), nil)
	if op.Status != gen.OperationStatusFailed {
		t.Errorf("with the names of its layers alone: %s", op.Status)
	}
	if text := logOf(t, tpl.Id) + logOf(t, op.Template.Id); strings.Contains(text, password) {
		t.Error("the login is in a build's log")
	}
	logs, err := os.ReadDir(platform.instance.LogDir())
	if err != nil || len(logs) == 0 {
		t.Fatalf("the logs: %v, %v", logs, err)
	}
	for _, l := range logs {
		b, err := os.ReadFile(platform.instance.LogDir() + "/" + l.Name())
		if err != nil || bytes.Contains(b, []byte(password)) {
			t.Errorf("%s has the login, or can't be read: %v", l.Name(), err)
		}
	}
}
