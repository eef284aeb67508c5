package api_test

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/gorillamux"
	"github.com/google/go-cmp/cmp"

	space "github.com/space-platform/space"
	contract "github.com/space-platform/space/api"
	"github.com/space-platform/space/api/apitest"
	"github.com/space-platform/space/internal/control/api"
)

// elsewhere is the tag of the operations that the edge serves; one that has other tags too is served here as well.
var elsewhere = []string{"data plane"}

// loaded is the contract, read and validated once: that takes seconds under the race detector. Nobody changes it.
var loaded = sync.OnceValues(func() (*openapi3.T, error) {
	doc, err := openapi3.NewLoader().LoadFromData([]byte(contract.OpenAPI()))
	if err != nil {
		return nil, err
	}
	return doc, doc.Validate(context.Background())
})

func loadContract(t *testing.T) *openapi3.T {
	t.Helper()
	doc, err := loaded()
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

var problems = sync.OnceValues(func() (*apitest.Problems, error) {
	doc, err := loaded()
	if err != nil {
		return nil, err
	}
	return apitest.NewProblems(doc, func(o *openapi3.Operation) bool { return !slices.Equal(o.Tags, elsewhere) }), nil
})

// listed is what problems the contract lists for what is served here.
func listed(t *testing.T) *apitest.Problems {
	t.Helper()
	p, err := problems()
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestOneVocabularyOfProblems: the contract's codes are the vocabulary's, and what an operation lists is of them, once.
func TestOneVocabularyOfProblems(t *testing.T) {
	doc := loadContract(t)
	var want, got []string
	for _, c := range space.Codes() {
		want = append(want, string(c))
	}
	for _, c := range doc.Components.Schemas["Problem"].Value.Properties["code"].Value.Enum {
		got = append(got, c.(string))
	}
	slices.Sort(want)
	slices.Sort(got)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the contract's codes differ from the vocabulary (-vocabulary +contract):\n%s", diff)
	}
	for path, item := range doc.Paths.Map() {
		for method, o := range item.Operations() {
			listed := apitest.Listed(doc, o)
			for _, c := range listed {
				if !slices.Contains(want, c) {
					t.Errorf("%s %s lists %s, which is no code", method, path, c)
				}
			}
			body := o.RequestBody != nil
			if body != slices.Contains(listed, string(space.CodeMediaType)) {
				t.Errorf("%s %s takes a body: %t, and lists %v", method, path, body, listed)
			}
			repeatable := slices.ContainsFunc(o.Parameters, func(p *openapi3.ParameterRef) bool { return p.Value.Name == "Idempotency-Key" })
			if repeatable != slices.Contains(listed, string(space.CodeIdempotencyMismatch)) {
				t.Errorf("%s %s takes an Idempotency-Key: %t, and lists %v", method, path, repeatable, listed)
			}
		}
	}
}

// TestEveryOperationIsServed compares the door's table with the contract, both ways: paths, methods, query parameters, bodies, keys.
func TestEveryOperationIsServed(t *testing.T) {
	want, got := map[string]api.RouteFacts{}, api.Routes()
	for pattern, o := range served(t) {
		facts := api.RouteFacts{
			Open: o.Security != nil && len(*o.Security) == 0, Body: o.RequestBody != nil,
			Needs: got[pattern].Needs, // TestEveryOperationNeedsOnePermission looks at it
		}
		for _, p := range append(loadContract(t).Paths.Value(strings.SplitN(pattern, " ", 2)[1]).Parameters, o.Parameters...) {
			if p.Value.In == "query" {
				facts.Query = append(facts.Query, p.Value.Name)
			}
		}
		slices.Sort(facts.Query)
		want[pattern] = facts
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// judge validates answers against the contract.
type judge struct {
	router routers.Router
}

func newJudge(t *testing.T) judge {
	t.Helper()
	openapi3filter.RegisterBodyDecoder("text/html", openapi3filter.PlainBodyDecoder)
	router, err := gorillamux.NewRouter(loadContract(t))
	if err != nil {
		t.Fatal(err)
	}
	return judge{router: router}
}

// check holds an answer against what the contract says of its operation. A request that matches no operation has no say in it.
func (j judge) check(t *testing.T, method, path string, a reply) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, path, nil)
	if err != nil {
		return // a request that only the wire can say
	}
	route, params, err := j.router.FindRoute(req)
	if err != nil {
		return
	}
	in := &openapi3filter.RequestValidationInput{Request: req, PathParams: params, Route: route}
	out := &openapi3filter.ResponseValidationInput{
		RequestValidationInput: in, Status: a.status, Header: a.header, Body: io.NopCloser(bytes.NewReader(a.body)),
		Options: &openapi3filter.Options{IncludeResponseStatus: true, MultiError: true},
	}
	if err := openapi3filter.ValidateResponse(t.Context(), out); err != nil {
		t.Errorf("%s %s answered %d against the contract: %v", method, path, a.status, err)
	}
}

// TestOneLeastMemory: the contract, and through space.MinMemoryMiB each that checks it, mean the same.
func TestOneLeastMemory(t *testing.T) {
	for _, schema := range []string{"SandboxCreate", "TemplateCreate"} {
		least := loadContract(t).Components.Schemas[schema].Value.Properties["memory_mb"].Value.Min
		if least == nil || *least != space.MinMemoryMiB {
			t.Errorf("%s says %v, the platform %d", schema, least, space.MinMemoryMiB)
		}
	}
}

func TestServesTheContract(t *testing.T) {
	r := newRig(t)
	a := r.do(t, "GET", "/openapi.yaml", nil, "Authorization", "").want(t, 200)
	if string(a.body) != contract.OpenAPI() || !strings.HasPrefix(a.header.Get("Content-Type"), "application/yaml") {
		t.Errorf("%s with %d bytes", a.header.Get("Content-Type"), len(a.body))
	}
}
