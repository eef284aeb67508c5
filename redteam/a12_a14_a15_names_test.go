//go:build e2e

package redteam

import (
	"encoding/base64"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	space "github.com/space-platform/space"
	gen "github.com/space-platform/space/api/gen/http"
	"github.com/space-platform/space/internal/host/thread"
	"github.com/space-platform/space/internal/instance"
)

// TestA12Guessing asks for ids that are nearly an id: each is answered like one that doesn't exist. Ids have 128 random bits.
func TestA12Guessing(t *testing.T) {
	box, other := boxes(t)
	missing := ask(t, "GET", platform.api+"/v1/sandboxes/"+space.NewID(space.PrefixSandbox), platform.owner, "").want(t, 404)
	missingEdge := ask(t, "GET", platform.edge+"/v1/sandboxes/"+space.NewID(space.PrefixSandbox)+"/files/stat?path=/", box.token, "")
	bare := strings.TrimPrefix(box.id, "sbx_")
	next := box.id[:len(box.id)-1] + string("abcdefghijklmnopqrstuvwxyz234567"[(strings.IndexByte("abcdefghijklmnopqrstuvwxyz234567", box.id[len(box.id)-1])+4)%32])
	for name, id := range map[string]string{
		"the next one": next, "without its prefix": bare, "in capitals": strings.ToUpper(box.id), "prefix in capitals": "SBX_" + bare, "another kind's prefix": "ses_" + bare,
		"an old form": "sbx-" + bare, "shorter": box.id[:len(box.id)-1], "longer": box.id + "a", "a blank behind": box.id + "%20", "a newline behind": box.id + "%0a", "a NUL behind": box.id + "%00",
		"Cyrillic": "ѕ" + box.id[1:], "full-width": "ｓ" + box.id[1:], "a combining mark": box.id + "\u0301", "1": "1", "0": "0", "-1": "-1", "null": "null", "*": "*", "%25": "%25", "me": "me", "a UUID": "00000000-0000-0000-0000-000000000000",
		"two": box.id + "," + other.id, "a pattern": box.id[:10] + "%25", "trailing bits": box.id[:len(box.id)-1] + "b",
	} {
		if strings.ReplaceAll(id, "%20", "") == box.id && name != "a blank behind" {
			continue
		}
		a := ask(t, "GET", platform.api+"/v1/sandboxes/"+id, platform.owner, "")
		wantSame(t, name, a, missing)
		e := ask(t, "GET", platform.edge+"/v1/sandboxes/"+id+"/files/stat?path=/", box.token, "")
		if e.status != missingEdge.status && e.status != 404 {
			t.Errorf("the edge, %s: %d %s", name, e.status, e.body)
		}
	}
	seen := map[string]bool{}
	for range 1000 {
		id := space.NewID(space.PrefixSandbox)
		if _, random, _ := strings.Cut(id, "_"); len(random) != 26 || seen[id] { // 26 characters of 5 bits
			t.Fatalf("the id %s", id)
		}
		seen[id] = true
	}
}

// TestA14Filters puts SQL, patterns and JSON into everything that selects or orders.
func TestA14Filters(t *testing.T) {
	box, other := boxes(t)
	ask(t, "PATCH", platform.api+"/v1/sandboxes/"+box.id, platform.owner, `{"metadata":{"a14":"100%_x","q\"uo'te":"v\\","box":"`+box.id+`"}}`).want(t, 200)
	list := func(query string) []gen.Sandbox {
		t.Helper()
		return decode[gen.SandboxPage](t, ask(t, "GET", platform.api+"/v1/sandboxes?"+query, platform.owner, "").want(t, 200)).Items
	}
	for _, exact := range []string{"a14=100%_x", `q"uo'te=v\`} {
		if got := list("metadata=" + escape(exact) + "&metadata=box=" + box.id); len(got) != 1 || got[0].Id != box.id {
			t.Errorf("%s finds %d", exact, len(got))
		}
	}
	for _, attack := range []string{
		`a14=%`, `a14=100%`, `a14=100__x`, `a14=100.*`, `a14=' OR '1'='1`, `a14=x'; DROP TABLE sandboxes; --`, `' OR 1=1 --=x`, `a14="} ] } OR {`, `a14":"100%_x","x=y`, `a14=\u0031`, `$.a14=100%_x`, `a14[0]=1`, `a14=100%_X`, `A14=100%_x`,
	} {
		if got := list("metadata=" + escape(attack)); len(got) != 0 {
			t.Errorf("%s finds %d", attack, len(got))
		}
	}
	for _, bad := range []string{
		"metadata=nothing", "metadata=" + escape("a\x00=b"), "metadata=" + escape("\xff=b"), "state=" + escape("running' OR '1'='1"), "state=RUNNING", "state=%25", "order_by=id;drop", "sort=created_at", "project=x", "org=x",
		"metadata[$ne]=x", "metadata=" + strings.Repeat("a", 1200) + "=b", strings.Repeat("metadata=a=b&", 9), strings.Repeat("state=running&", 16), "sandbox=x", "cursor=&cursor=",
	} {
		if a := ask(t, "GET", platform.api+"/v1/sandboxes?"+bad, platform.owner, ""); a.status != 400 {
			t.Errorf("%s: %d %s", clip(bad), a.status, clip(a.body))
		}
	}
	for _, name := range []string{"mini'--", "mini%25", "mini_", "MINI", "mini:' OR ''='", "..", "tpl_%25"} {
		if a := ask(t, "GET", platform.api+"/v1/templates/"+strings.ReplaceAll(escape(name), "+", "%20"), platform.owner, ""); a.status != 404 && a.status != 400 {
			t.Errorf("template %s: %d %s", name, a.status, a.body)
		}
	}
	if got := list("limit=100"); len(got) < 2 || other.id == "" {
		t.Errorf("afterwards there are %d sandboxes", len(got))
	}
}

// TestA14Cursors changes every byte of a cursor, and shows it where it doesn't belong: to another list, and to another project.
func TestA14Cursors(t *testing.T) {
	boxes(t)
	page := decode[gen.SandboxPage](t, ask(t, "GET", platform.api+"/v1/sandboxes?limit=1", platform.owner, "").want(t, 200))
	if page.NextCursor == nil {
		t.Fatal("the first page of two sandboxes has no cursor")
	}
	cursor := *page.NextCursor
	at := func(list, cursor, key string) reply {
		return ask(t, "GET", platform.api+list+"?limit=1&cursor="+escape(cursor), key, "")
	}
	at("/v1/sandboxes", cursor, platform.owner).want(t, 200)
	for i := range cursor {
		b := []byte(cursor)
		if b[i]++; b[i] > 'z' {
			b[i] = 'A'
		}
		if a := at("/v1/sandboxes", string(b), platform.owner); a.status != 400 {
			t.Fatalf("with byte %d changed: %d %s", i, a.status, clip(a.body))
		}
	}
	made := base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, "%d.%s", time.Now().UnixMicro(), space.NewID(space.PrefixSandbox)))
	for name, c := range map[string]string{"made up": made, "cut": cursor[:len(cursor)-2], "padded": cursor + "==", "empty": "", "twice": cursor + cursor} {
		if a := at("/v1/sandboxes", c, platform.owner); a.status != 400 {
			t.Errorf("%s: %d %s", name, a.status, clip(a.body))
		}
	}
	for _, list := range []string{"/v1/templates", "/v1/keys", "/v1/users", "/v1/projects", "/v1/events", "/v1/templates/mini/logs", "/v1/sandboxes/" + platform.box.id + "/sessions"} {
		if a := at(list, cursor, platform.owner); a.status != 400 {
			t.Errorf("in %s: %d %s", list, a.status, clip(a.body))
		}
	}
	if a := at("/v1/sandboxes", cursor, stranger(t)); a.status != 400 {
		t.Errorf("in another project: %d %s", a.status, clip(a.body))
	}
	events := decode[gen.EventPage](t, ask(t, "GET", platform.api+"/v1/events?limit=1", platform.owner, "").want(t, 200)).NextCursor
	at("/v1/events", events, platform.owner).want(t, 200)
	if a := at("/v1/events", events, stranger(t)); a.status != 400 {
		t.Errorf("an event's cursor in another project: %d %s", a.status, clip(a.body))
	}
	if a := at("/v1/templates/mini/logs", events, platform.owner); a.status != 400 {
		t.Errorf("an event's cursor in a log: %d %s", a.status, clip(a.body))
	}
}

// forged are headers by which somebody outside might pass for somebody inside.
var forged = []string{
	"X-Forwarded-For", "127.0.0.1", "X-Real-IP", "127.0.0.1", "Forwarded", "for=127.0.0.1", "X-Forwarded-Host", "evil.example", "X-Original-URL", "/v1/keys", "X-Rewrite-URL", "/v1/keys",
	"X-Org-Id", "org_a", "X-User", "root", "X-Remote-User", "root", "X-Project", "prj_a", "X-Role", "owner", "X-HTTP-Method-Override", "DELETE", "X-Space-Capability", "CAES", "X-Space-Route", "sbx_a",
	"X-Sandbox-Id", "sbx_a", "E2b-Sandbox-Id", "sbx_a", "X-Access-Token", "x", "X-Api-Key", "x", "Cookie", "session=owner", "Proxy-Authorization", "Bearer x", "Traceparent", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
}

// TestA15Headers adds forged headers: nothing is answered otherwise than without them.
func TestA15Headers(t *testing.T) {
	box, other := boxes(t)
	viewer := keyOf(t, space.RoleViewer, "").Secret
	for _, q := range []struct{ method, to, bearer string }{
		{"GET", platform.api + "/v1/me", ""}, {"GET", platform.api + "/v1/roles", viewer}, {"POST", platform.api + "/v1/keys", viewer}, {"GET", platform.api + "/v1/sandboxes/" + other.id, stranger(t)},
		{"GET", platform.api + "/v1/keys", box.token}, {"GET", box.path("/files/stat?path=/"), ""}, {"GET", other.path("/files/stat?path=/"), box.token}, {"GET", box.path("/files/stat?path=/"), platform.owner},
		{"GET", box.path("/files/stat?path=/etc"), box.token},
	} {
		without := ask(t, q.method, q.to, q.bearer, "")
		with := ask(t, q.method, q.to, q.bearer, "", forged...)
		as, ah, ab := without.same()
		bs, bh, bb := with.same()
		if as != bs || ab != bb || fmt.Sprint(ah) != fmt.Sprint(bh) {
			t.Errorf("%s %s: without %d %s, with forged headers %d %s", q.method, q.to, as, clip(ab), bs, clip(bb))
		}
	}
	for _, twice := range [][]string{{"Authorization", "Bearer " + platform.owner}, {"Authorization", "Basic cm9vdDpyb290"}} {
		if a := ask(t, "GET", platform.api+"/v1/me", viewer, "", twice...); a.status != 401 {
			t.Errorf("two Authorization headers: %d %s", a.status, a.body)
		}
	}
	for _, inside := range []string{"/space.control.v1.ControlService/Synchronize", "/space.control.v1.DataPlaneService/ResolveSandbox", "/space.session.v1.SessionService/Attach", "/space.sandbox.v1.SandboxService/Call"} {
		for _, base := range []string{platform.api, platform.edge} {
			ask(t, "POST", base+inside, platform.owner, `{}`, "Content-Type", "application/json", "Connect-Protocol-Version", "1").want(t, 404)
		}
	}
}

// TestA15Inside knocks on the doors between our processes as another user of the machine, and looks for them on the network.
func TestA15Inside(t *testing.T) {
	i := platform.instance
	doors := 0
	for _, role := range instance.Roles() {
		socket := i.Socket(role)
		if role == instance.Postgres {
			socket = i.RoleRunDir(role) + "/.s.PGSQL.5432"
		}
		knock := func() error {
			c, err := net.DialTimeout("unix", socket, callDeadline)
			if err == nil {
				c.Close()
			}
			return err
		}
		if knock() != nil {
			continue // the role serves none
		}
		if doors++; asNobody(knock) == nil {
			t.Errorf("another user connects to the socket of %s", role)
		}
	}
	if doors < 5 {
		t.Errorf("only %d roles have a socket", doors)
	}
	for _, role := range instance.Roles() {
		port, ok := i.OpsPort(role)
		if !ok {
			continue
		}
		for _, address := range ownAddresses(t) {
			if c, err := net.DialTimeout("tcp", net.JoinHostPort(address, fmt.Sprint(port)), time.Second); err == nil {
				c.Close()
				t.Errorf("the figures of %s are served on %s", role, address)
			}
		}
	}
}

// asNobody does something on a thread with the rights of the user nobody.
func asNobody(do func() error) error { return asUser(65534, do) }

// asUser does something on a thread with the rights of a user, in the group of the same number.
func asUser(uid int, do func() error) error {
	id := uintptr(uid)
	return thread.Run(func() error {
		for _, set := range [][4]uintptr{{unix.SYS_SETGROUPS}, {unix.SYS_SETRESGID, id, id, id}, {unix.SYS_SETRESUID, id, id, id}} {
			if _, _, errno := unix.RawSyscall(set[0], set[1], set[2], set[3]); errno != 0 { // of this thread alone
				panic(errno)
			}
		}
		return do()
	})
}

// ownAddresses are those of this machine that others can reach.
func ownAddresses(t *testing.T) (out []string) {
	t.Helper()
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range addresses {
		if n, ok := a.(*net.IPNet); ok && !n.IP.IsLoopback() && !n.IP.IsLinkLocalUnicast() {
			out = append(out, n.IP.String())
		}
	}
	return out
}
