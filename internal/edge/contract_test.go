package edge

import (
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	contract "github.com/space-platform/space/api"
	"github.com/space-platform/space/api/apitest"
)

// facts is what both the contract and the edge's table say of an operation.
type facts struct {
	Accepts material
	Query   []string
	Body    bool
}

// schemes are the contract's names of the materials.
var schemes = map[string]material{"attachment": attachmentToken, "sandbox": sandboxToken, "upload": uploadToken, "signedURL": signedURL}

var loaded = sync.OnceValues(func() (*openapi3.T, error) {
	return openapi3.NewLoader().LoadFromData([]byte(contract.OpenAPI()))
})

func loadContract(t *testing.T) *openapi3.T {
	t.Helper()
	doc, err := loaded()
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

// problems are those that the contract lists for what is served here.
var problems = sync.OnceValues(func() (*apitest.Problems, error) {
	doc, err := loaded()
	if err != nil {
		return nil, err
	}
	return apitest.NewProblems(doc, func(o *openapi3.Operation) bool { return slices.Contains(o.Tags, "data plane") }), nil
})

// TestTheContractIsServed compares the table with what openapi.yaml lists under the tag `data plane`, both ways: paths, methods, query
// parameters, bodies, materials.
func TestTheContractIsServed(t *testing.T) {
	want, got := map[string]facts{}, map[string]facts{}
	for path, item := range loadContract(t).Paths.Map() {
		for method, o := range item.Operations() {
			if slices.Contains(o.Tags, "data plane") {
				want[method+" "+path] = documented(t, item, o)
			}
		}
	}
	for pattern, o := range operations {
		query := slices.Clone(o.query)
		slices.Sort(query)
		got[pattern] = facts{o.accepts, query, o.body}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func documented(t *testing.T, item *openapi3.PathItem, o *openapi3.Operation) facts {
	t.Helper()
	out := facts{Body: o.RequestBody != nil}
	for _, p := range slices.Concat(item.Parameters, o.Parameters) {
		if p.Value.In == "query" {
			out.Query = append(out.Query, p.Value.Name)
		}
	}
	slices.Sort(out.Query)
	if o.Security == nil {
		t.Errorf("%s needs no material", o.OperationID)
		return out
	}
	for _, s := range *o.Security {
		for name := range s {
			if m, ok := schemes[name]; ok {
				out.Accepts |= m
			} else if name != "key" || !slices.Contains(o.Tags, "sessions") {
				t.Errorf("%s takes %s", o.OperationID, name)
			}
		}
	}
	return out
}

// TestMaterialsDoNotMix shows each operation every material but those that open it.
func TestMaterialsDoNotMix(t *testing.T) {
	r := newRig(t)
	shown := map[material]string{attachmentToken: r.token, sandboxToken: r.box, uploadToken: r.put}
	others := []string{"space_aaaaaaaa_" + strings.Repeat("a", 52), "e2b_" + strings.Repeat("0", 40), "spacebrk_x", "x", r.box + "/", r.box + " " + r.token, strings.Repeat("a", 10_000)}
	for pattern, o := range operations {
		method, path, _ := strings.Cut(pattern, " ")
		path = strings.NewReplacer("{sandbox}", r.sandbox, "{session}", r.session, "{upload}", r.upload).Replace(path)
		refused := slices.Clone(others)
		for m, token := range shown {
			if o.accepts&m == 0 {
				refused = append(refused, token)
			}
		}
		for _, token := range refused {
			c := r.ask(t, method, path, nil, "Authorization", "Bearer "+token)
			if c.StatusCode != http.StatusUnauthorized {
				t.Errorf("%s with %.20s: %s", pattern, token, c.Status)
			}
		}
		if o.accepts&signedURL == 0 {
			if c := r.ask(t, method, path+"?path=/a&expires=9&signature=good", nil, "Authorization", ""); c.StatusCode != http.StatusUnauthorized {
				t.Errorf("%s with a signed URL: %s", pattern, c.Status)
			}
		}
	}
	if len(r.asked)+r.resolved+len(r.actions) != 0 {
		t.Errorf("%d questions reached the control plane, %d actions the node", len(r.asked)+r.resolved, len(r.actions))
	}
}

// TestEverySignalIsInTheContract, and no other.
func TestEverySignalIsInTheContract(t *testing.T) {
	pattern := regexp.MustCompile(loadContract(t).Components.Schemas["SessionSignal"].Value.Properties["signal"].Value.Pattern)
	for n := range unix.Signal(128) {
		if name := unix.SignalName(n); name != "" && !pattern.MatchString(name) {
			t.Errorf("%s is taken and isn't in the contract", name)
		}
	}
	names := strings.TrimSuffix(strings.TrimPrefix(pattern.String(), "^SIG("), ")$")
	for name := range strings.SplitSeq(names, "|") {
		if _, err := checkSignal("signal", "SIG"+name); err != nil {
			t.Errorf("SIG%s is in the contract: %v", name, err)
		}
	}
}
