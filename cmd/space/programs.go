package main

import (
	"os"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/space-platform/space/internal/instance"
	"github.com/space-platform/space/internal/supervise"
)

// roleGrace is how long a role that was told to stop may take: it drains its requests.
const roleGrace = 15 * time.Second

// passedOn are the variables of whoever calls 'space up' that spaced-host gets: template builds fetch packages.
var passedOn = []string{"http_proxy", "https_proxy", "no_proxy", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY"}

func superviseDirs(i instance.Instance) supervise.Dirs {
	return supervise.Dirs{Run: i.RunDir(), Log: i.LogDir()}
}

// roles are those that the instance needs: one with an existing PostgreSQL runs none of its own.
func roles(i instance.Instance) []instance.Role {
	return slices.DeleteFunc(instance.Roles(), func(r instance.Role) bool { return r == instance.Postgres && i.ExternalDatabase() })
}

// programs says how each role is started from the given binary.
func programs(i instance.Instance, self string) []supervise.Program {
	var out []supervise.Program
	for _, r := range roles(i) {
		p := supervise.Program{
			Name: string(r), Path: self, Args: []string{string(r), "--instance", i.Name}, Env: minimalEnvironment(),
			UID: i.UID(r), GID: i.UID(r), Groups: []int{i.GID()}, Stop: unix.SIGTERM, Grace: roleGrace,
		}
		switch r {
		case instance.Postgres:
			p.Stop = unix.SIGINT // "fast": ends its clients' transactions instead of waiting for the clients
			p.Socket = postgresServer(i).Socket()
		case instance.Host:
			p.Env = roleEnvironment()
		}
		out = append(out, p)
	}
	return out
}

func minimalEnvironment() []string {
	return []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C.UTF-8", "TZ=UTC"}
}

func roleEnvironment() []string {
	env := minimalEnvironment()
	for _, name := range passedOn {
		if v, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+v)
		}
	}
	return env
}
