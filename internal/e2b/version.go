package e2b

import (
	"context"
	"log/slog"
	"net/http"
	"regexp"
	"runtime/debug"
	"strconv"
	"time"
)

// detachedTime bounds what is done for a client that may have gone.
const detachedTime = 30 * time.Second

// envdVersion is what the platform says of itself: the SDKs turn on what an agent of that version has. Later ones keep metadata of files (0.6.2), and
// tell of entries in watches (0.6.3).
const envdVersion = "0.5.12"

// sdk finds an SDK's version in its User-Agent.
var sdk = regexp.MustCompile(`^e2b-(python|js)-sdk/(\d+)\.(\d+)\.(\d+)`)

// The range of SDKs that is served: of the versions before, some keep no sandbox's name in what they ask for (2.7.0), and none is tested here.
const (
	oldestMajor, oldestMinor = 2, 20
	newestMajor              = 2
	supportedRange           = "2.20.0 and later of 2"
)

// checkVersion refuses SDKs that aren't served, before they wait for an answer that they can't read. Who doesn't say that it's an SDK is let in.
func checkVersion(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if language, version, ok := unserved(r.Header.Get("User-Agent")); ok {
			fail(w, r, refuse(http.StatusBadRequest, "version %s of E2B's %s SDK isn't served by this platform: use %s", version, language, supportedRange))
			return
		}
		next.ServeHTTP(w, r)
	})
}

// unserved tells whether a User-Agent is that of an SDK that isn't served.
func unserved(agent string) (language, version string, yes bool) {
	m := sdk.FindStringSubmatch(agent)
	if m == nil {
		return "", "", false
	}
	major, errMajor := strconv.Atoi(m[2])
	minor, errMinor := strconv.Atoi(m[3])
	served := errMajor == nil && errMinor == nil && major <= newestMajor && (major > oldestMajor || major == oldestMajor && minor >= oldestMinor)
	return map[string]string{"python": "Python", "js": "JavaScript"}[m[1]], m[2] + "." + m[3] + "." + m[4], !served
}

func reportPanic(ctx context.Context, v any) {
	slog.ErrorContext(ctx, "panic", "value", v, "stack", string(debug.Stack()))
}
