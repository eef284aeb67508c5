package e2b

import (
	"errors"
	"net/http/httptest"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	space "github.com/space-platform/space"
	"github.com/space-platform/space/client"
)

// TestSignature pins what the SDKs compute, with values that E2B's Python SDK 2.21.1 has signed.
func TestSignature(t *testing.T) {
	const token = "abcdefghijklmnopqrstuvwxyz.spacesbx_secret"
	for _, x := range []struct {
		s    signed
		good bool
	}{
		{signed{path: "/home/user/a b.txt", operation: operationRead, user: "user", signature: "v1_2E42mhr+DxmzvETdhnlY0b83nHBMEF/AA4PHDJ08dao"}, true},
		{signed{path: "/home/user/a b.txt", operation: operationWrite, user: "user", signature: "v1_2E42mhr+DxmzvETdhnlY0b83nHBMEF/AA4PHDJ08dao"}, false},
		{signed{path: "x", operation: operationWrite, expiration: "1800000000", signature: "v1_scTH4Ez3VFusVz/76E6EOfMqmRh1s97dmE10r3xDjeE"}, true},
	} {
		if got := x.s.by(token); got != x.good {
			t.Errorf("%+v: %v", x.s, got)
		}
	}
}

// TestAccessIsReadBack: what an SDK is given leads back to the sandbox, and nothing else does.
func TestAccessIsReadBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a := access{space.NewID(space.PrefixSandbox), "spacesbx_" + rapid.StringMatching(`[a-z2-7]{1,60}`).Draw(t, "secret")}
		if got, ok := parseAccess(a.String()); !ok || got != a {
			t.Fatalf("%s is read as %+v, %v", a, got, ok)
		}
	})
	for _, bad := range []string{"", ".", "x.y", strings.Repeat("a", 26), strings.Repeat("a", 26) + ".", strings.Repeat("A", 26) + ".s", strings.Repeat("a", 26) + "." + strings.Repeat("s", maxToken)} {
		if a, ok := parseAccess(bad); ok {
			t.Errorf("%q is read as %+v", bad, a)
		}
	}
}

func TestExpiry(t *testing.T) {
	now := time.Unix(100, 0)
	for text, want := range map[string]bool{"": false, "100": false, "101": false, "99": true, "soon": true} {
		if got := (signed{expiration: text}).expired(now); got != want {
			t.Errorf("%q: %v", text, got)
		}
	}
}

// TestTokensAreForgotten keeps the newest, and those of sandboxes that are there.
func TestTokensAreForgotten(t *testing.T) {
	var ts tokens
	first := access{space.NewID(space.PrefixSandbox), "s"}
	ts.remember(first)
	ts.remember(first)
	for range maxTokens {
		ts.remember(access{space.NewID(space.PrefixSandbox), "s"})
	}
	if _, ok := ts.known[first]; ok || len(ts.known) != maxTokens || len(ts.order) != maxTokens {
		t.Fatalf("of %d, %d are known; the oldest: %v", maxTokens+1, len(ts.known), ok)
	}
	last := ts.order[0]
	ts.forget(last.sandbox)
	if _, ok := ts.known[last]; ok || len(ts.known) != maxTokens-1 {
		t.Error("a sandbox that is gone is remembered")
	}
	ts.remember(first)
	ts.remember(last)
	if len(ts.known) > maxTokens {
		t.Errorf("%d are known", len(ts.known))
	}
}

// TestTokensOfOneSandboxAreBounded keeps its newest, whatever else is remembered.
func TestTokensOfOneSandboxAreBounded(t *testing.T) {
	var ts tokens
	other, mine := access{space.NewID(space.PrefixSandbox), "s"}, space.NewID(space.PrefixSandbox)
	ts.remember(other)
	for n := range tokensEach + 1 {
		ts.remember(access{mine, strconv.Itoa(n)})
	}
	_, oldest := ts.known[access{mine, "0"}]
	_, newest := ts.known[access{mine, strconv.Itoa(tokensEach)}]
	if len(ts.known) != tokensEach+1 || len(ts.of[mine]) != tokensEach || oldest || !newest {
		t.Errorf("%d are known, %d of the sandbox; its oldest: %v, its newest: %v", len(ts.known), len(ts.of[mine]), oldest, newest)
	}
	ts.forget(mine)
	if _, ok := ts.known[other]; !ok || len(ts.known) != 1 || len(ts.of) != 1 {
		t.Errorf("then %v are known", ts.known)
	}
}

// TestSigner tries a named sandbox's tokens and no others, and all of them only until too many URLs were nobody's.
func TestSigner(t *testing.T) {
	var ts tokens
	a, b := access{space.NewID(space.PrefixSandbox), "a"}, access{space.NewID(space.PrefixSandbox), "b"}
	ts.remember(a)
	ts.remember(b)
	good := signed{path: "/x", operation: operationRead}
	good.signature = signatureOf(good, a.String())
	bad, now := signed{path: "/x", operation: operationRead, signature: "x"}, time.Unix(1000, 0)
	expect := func(s signed, sandbox string, now time.Time, status int) {
		t.Helper()
		got, err := ts.signer(s, sandbox, now)
		var p *problem
		switch {
		case status == 0 && (err != nil || got != a):
			t.Errorf("it's %v, %v", got, err)
		case status != 0 && (!errors.As(err, &p) || p.Code != status):
			t.Errorf("it's %v, %v, want %d", got, err, status)
		}
	}
	expect(good, b.sandbox, now, 401)
	expect(good, space.NewID(space.PrefixSandbox), now, 401)
	for range maxMisses {
		expect(bad, a.sandbox, now, 401)
		expect(good, "", now, 0)
	}
	for range maxMisses {
		expect(bad, "", now, 401)
	}
	expect(bad, "", now, 429)
	expect(good, "", now, 429)
	expect(good, a.sandbox, now, 0)
	expect(good, "", now.Add(missTime), 0)
}

// TestBuildsOfOneKeyAreBounded has one key begin as many builds as it may: others begin theirs.
func TestBuildsOfOneKeyAreBounded(t *testing.T) {
	var all builds
	begin := func(key string) error { return all.add(&build{owner: ownerOf(key), id: newUUID(), began: time.Now()}) }
	for range buildsEach {
		if err := begin("one"); err != nil {
			t.Fatal(err)
		}
	}
	if err := begin("one"); err == nil {
		t.Error("it begins one more")
	}
	if err := begin("another"); err != nil {
		t.Errorf("another key: %v", err)
	}
}

// TestLogsOfBuildsAreBounded keeps a log by bytes and by lines, says that it was cut, and drops it an hour after the build's end.
func TestLogsOfBuildsAreBounded(t *testing.T) {
	for _, text := range []string{strings.Repeat("x", 4096), ""} {
		synctest.Test(t, func(t *testing.T) {
			n := &build{read: make(chan struct{})}
			for range maxLines + 10 {
				n.keep(client.LogLine{Text: text})
			}
			n.keep(client.LogLine{Text: "small"})
			size, all := 0, n.entries(0)
			for _, e := range all {
				size += len(e.Message)
			}
			if whole := len(all) == maxLines || size > maxLog-8192; len(all) > maxLines || size > maxLog || size != n.size || !whole {
				t.Errorf("%d lines of %d bytes are kept, %d counted", len(all), size, n.size)
			}
			if last := all[len(all)-1].Message; last != cutNotice {
				t.Errorf("the last line is %q", last)
			}
			n.ended()
			<-n.read
			time.Sleep(linesLife - time.Second) // of the bubble's clock
			if len(n.entries(0)) != len(all) {
				t.Error("the lines are gone too early")
			}
			time.Sleep(2 * time.Second)
			synctest.Wait()
			if left := n.entries(0); len(left) != 0 {
				t.Errorf("%d lines are left", len(left))
			}
		})
	}
}

// TestASignedURLIsForItsUser brings another user with a signed URL: it's for whom it was signed.
func TestASignedURLIsForItsUser(t *testing.T) {
	f, err := New(Config{Edge: "http://127.0.0.1:1"})
	if err != nil {
		t.Fatal(err)
	}
	a := access{space.NewID(space.PrefixSandbox), secret}
	f.tokens.remember(a)
	for _, user := range []string{"", "user"} {
		q := url.Values{"path": {"/x"}, "signature": {signatureOf(signed{path: "/x", operation: operationRead, user: user}, a.String())}}
		if user != "" {
			q.Set("username", user)
		}
		r := httptest.NewRequest("GET", "/files?"+q.Encode(), nil)
		r.SetBasicAuth("root", "")
		g, err := f.enterFiles(r, operationRead)
		if err != nil || g.user != user || g.access != a {
			t.Errorf("signed for %q, it's %+v, %v", user, g, err)
		}
	}
}
