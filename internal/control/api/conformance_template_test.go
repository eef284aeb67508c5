package api_test

import (
	"fmt"
	"strings"

	space "github.com/space-platform/space"
)

// templateExchanges are about templates. There is mini, with a sandbox.
func templateExchanges() []exchange {
	at := func(method, path string, status int) exchange {
		return exchange{name: method + " " + path, method: method, path: path, status: status}
	}
	wrong := func(method, path string, code space.Code, field string) exchange {
		return exchange{name: method + " " + path, method: method, path: path, code: code, field: field}
	}
	return append(buildExchanges(), []exchange{
		at("GET", "/v1/templates?limit=1", 200),
		at("GET", "/v1/templates/mini/logs", 200),
		at("GET", "/v1/templates/mini/logs?limit=1", 200),
		at("PUT", "/v1/templates/mini/tags/v1", 200),
		at("GET", "/v1/templates/mini:v1", 200),
		at("PUT", "/v1/templates/mini:v1/tags/v2", 200),
		at("DELETE", "/v1/templates/mini/tags/v1", 204),
		wrong("DELETE", "/v1/templates/mini/tags/v1", space.CodeNotFound, ""),
		wrong("PUT", "/v1/templates/mini/tags/V1", space.CodeInvalid, "tag"),
		wrong("PUT", "/v1/templates/mini/tags/"+strings.Repeat("a", 64), space.CodeInvalid, "tag"),
		wrong("DELETE", "/v1/templates/mini/tags/%00", space.CodeInvalid, "tag"),
		at("PUT", "/v1/templates/mini/aliases/small", 200),
		at("PUT", "/v1/templates/small/aliases/small", 200),
		at("GET", "/v1/templates/small:v2", 200),
		wrong("PUT", "/v1/templates/mini/aliases/mini", space.CodeConflict, ""),
		wrong("PUT", "/v1/templates/mini/aliases/tpl_x", space.CodeInvalid, "alias"),
		wrong("PUT", "/v1/templates/mini/aliases/a%2Fb", space.CodeInvalid, "alias"),
		{name: "build: an alias as the name", method: "POST", path: "/v1/templates", body: `{"name":"small","image":"alpine"}`, code: space.CodeInvalid, field: "name"},
		at("DELETE", "/v1/templates/small/aliases/small", 204),
		wrong("DELETE", "/v1/templates/mini/aliases/small", space.CodeNotFound, ""),
		wrong("DELETE", "/v1/templates/mini", space.CodeConflict, ""),
		wrong("GET", "/v1/templates/mini/logs?cursor=x", space.CodeInvalid, "cursor"),
		wrong("GET", "/v1/templates/mini/logs?limit=0", space.CodeInvalid, "limit"),
		wrong("GET", "/v1/templates/mini/tags/v2", space.CodeMethod, ""),
		{name: "log after an odd event", method: "GET", path: "/v1/templates/mini/logs", header: []string{"Last-Event-ID", "x"}, code: space.CodeInvalid, field: "Last-Event-ID"},
		{name: "log after a huge event", method: "GET", path: "/v1/templates/mini/logs", header: []string{"Last-Event-ID", strings.Repeat("9", 20)}, code: space.CodeInvalid, field: "Last-Event-ID"},
		{name: "upload", method: "POST", path: "/v1/uploads", body: `{}`, status: 201},
		{name: "upload of a digest", method: "POST", path: "/v1/uploads", body: fmt.Sprintf(`{"sha256":"%064x"}`, 7), status: 201},
		{name: "upload of a bad digest", method: "POST", path: "/v1/uploads", body: `{"sha256":"x"}`, code: space.CodeInvalid, field: "sha256"},
		{name: "upload with another field", method: "POST", path: "/v1/uploads", body: `{"name":"x"}`, code: space.CodeInvalid, field: "name"},
		{name: "bytes of an upload are the edge's", method: "PUT", path: "/v1/uploads/" + space.NewID(space.PrefixUpload), body: `x`, code: space.CodeMethod},
		wrong("GET", "/v1/uploads?cursor=x", space.CodeInvalid, "cursor"),
		wrong("GET", "/v1/uploads?limit=0", space.CodeInvalid, "limit"),
		{name: "list uploads", method: "GET", path: "/v1/uploads", status: 200},
	}...)
}

// buildExchanges are builds that are refused.
func buildExchanges() []exchange {
	upload := space.NewID(space.PrefixUpload)
	build := func(name string, body any, code space.Code, field string) exchange {
		return exchange{name: "build: " + name, method: "POST", path: "/v1/templates", body: body, code: code, field: field}
	}
	steps := func(n int, run string) map[string]any {
		var list []map[string]string
		for range n {
			list = append(list, map[string]string{"run": run})
		}
		return map[string]any{"name": "web", "image": "alpine", "steps": list}
	}
	return []exchange{
		build("nothing", `{}`, space.CodeInvalid, "recipe"),
		build("unknown recipe", `{"recipe":"maxi"}`, space.CodeInvalid, "recipe"),
		build("two sources", `{"recipe":"mini","image":"alpine"}`, space.CodeInvalid, "image"),
		build("no name", `{"image":"alpine"}`, space.CodeInvalid, "name"),
		build("name like an id", `{"image":"alpine","name":"tpl_x"}`, space.CodeInvalid, "name"),
		build("bad tag", `{"recipe":"mini","tags":["a b"]}`, space.CodeInvalid, "tags[0]"),
		build("bad image", `{"name":"web","image":"http://alpine"}`, space.CodeInvalid, "image"),
		build("bad suite", `{"name":"web","debian":{"suite":"Bookworm"}}`, space.CodeInvalid, "debian.suite"),
		build("no suite", `{"name":"web","debian":{}}`, space.CodeInvalid, "debian.suite"),
		build("bad package", `{"name":"web","debian":{"suite":"bookworm","packages":["--force"]}}`, space.CodeInvalid, "debian.packages[0]"),
		build("unknown member of a source", `{"name":"web","debian":{"suite":"bookworm","mirror":"x"}}`, space.CodeInvalid, "debian.mirror"),
		build("not an upload", `{"name":"web","rootfs":"x"}`, space.CodeInvalid, "rootfs"),
		build("no such upload", `{"name":"web","rootfs":"`+upload+`"}`, space.CodeInvalid, "rootfs"),
		build("no such base", `{"name":"web","template":"nothing"}`, space.CodeNotFound, ""),
		build("odd base", `{"name":"web","template":"a\u0000b"}`, space.CodeNotFound, ""),
		build("empty step", `{"name":"web","image":"alpine","steps":[{}]}`, space.CodeInvalid, "steps[0]"),
		build("null step", `{"name":"web","image":"alpine","steps":[null]}`, space.CodeInvalid, "steps[0]"),
		build("step of two kinds", `{"name":"web","image":"alpine","steps":[{"run":"a","user":"b"}]}`, space.CodeInvalid, "steps[0]"),
		build("unknown step", `{"name":"web","image":"alpine","steps":[{"run":"a"},{"walk":"b"}]}`, space.CodeInvalid, "steps[1].walk"),
		build("step with a NUL", `{"name":"web","image":"alpine","steps":[{"run":"a\u0000"}]}`, space.CodeInvalid, "steps[0].run"),
		build("copy to nowhere", `{"name":"web","image":"alpine","steps":[{"copy":{"upload":"`+upload+`","to":"x"}}]}`, space.CodeInvalid, "steps[0].copy.to"),
		build("copy of no such upload", `{"name":"web","image":"alpine","steps":[{"run":"a"},{"copy":{"upload":"`+upload+`","to":"/"}}]}`, space.CodeInvalid, "steps[1].copy.upload"),
		build("steps of another type", `{"name":"web","image":"alpine","steps":{"run":"a"}}`, space.CodeInvalid, "steps"),
		build("many steps", steps(257, "a"), space.CodeInvalid, "steps"),
		build("large steps", steps(9, strings.Repeat("a", 120<<10)), space.CodeInvalid, "steps"),
		build("too large", steps(256, strings.Repeat("a", 20<<10)), space.CodeTooLarge, ""),
		build("no memory", `{"recipe":"mini","memory_mb":1}`, space.CodeInvalid, "memory_mb"),
		build("a disk too large", `{"recipe":"mini","disk_mb":1048577}`, space.CodeInvalid, "disk_mb"),
		build("a disk smaller than the base's", `{"name":"web","template":"mini","disk_mb":64,"memory_mb":95}`, space.CodeInvalid, "memory_mb"),
	}
}
