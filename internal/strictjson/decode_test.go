package strictjson

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	space "github.com/space-platform/space"
)

type nestedBody struct {
	Name  string     `json:"name"`
	At    *time.Time `json:"at,omitempty"`
	Inner *inner     `json:"inner,omitempty"`
	List  *[]inner   `json:"list,omitempty"`
	Words *[]string  `json:"words,omitempty"`
	Bytes *[]byte    `json:"bytes,omitempty"`
}

// lax is as objects are generated of which some members go together: its own decoder takes what isn't to be taken.
type lax struct {
	Most  *int   `json:"most,omitempty"`
	Tiers *[]lax `json:"tiers,omitempty"`
	union json.RawMessage
}

func (l *lax) UnmarshalJSON(b []byte) error { return l.union.UnmarshalJSON(b) }

func TestDecodeReadsMembersItself(t *testing.T) {
	var got struct {
		Lax *lax `json:"lax,omitempty"`
	}
	if err := Decode([]byte(`{"lax":{"most":3.0,"tiers":[{"most":4}]}}`), &got); err != nil || *got.Lax.Most != 3 || *(*got.Lax.Tiers)[0].Most != 4 {
		t.Errorf("%+v, %v", got.Lax, err)
	}
	for body, field := range map[string]string{
		`{"lax":{"most":null}}`:               "lax.most",
		`{"lax":{"least":1}}`:                 "lax.least",
		`{"lax":{"union":1}}`:                 "lax.union",
		`{"lax":{"":1}}`:                      "lax.",
		`{"lax":{"most":1,"most":2}}`:         "lax.most",
		`{"lax":{"most":1.5}}`:                "lax.most",
		`{"lax":{"tiers":[{"most":"many"}]}}`: "lax.tiers[0].most",
	} {
		var refused *space.Error
		if err := Decode([]byte(body), &got); !errors.As(err, &refused) || refused.Field != field {
			t.Errorf("%s: %v, want field %s", body, err, field)
		}
	}
}

type inner struct {
	Run  *string            `json:"run,omitempty"`
	Deep *inner             `json:"deep,omitempty"`
	Env  *map[string]string `json:"env,omitempty"`
}

// TestAMemberThatMustBeThere: what is generated for it has no omitempty, and would be read as 0.
func TestAMemberThatMustBeThere(t *testing.T) {
	type tier struct {
		Every int    `json:"every"`
		Name  string `json:"name,omitempty"`
	}
	var got struct {
		Tiers *[]tier `json:"tiers,omitempty"`
	}
	for body, field := range map[string]string{`{"tiers":[{"every":0},{"name":"a"}]}`: "tiers[1].every", `{"tiers":[{"every":0}]}`: "", `{}`: ""} {
		err := Decode([]byte(body), &got)
		var refused *space.Error
		if field == "" && err != nil || field != "" && (!errors.As(err, &refused) || refused.Field != field) {
			t.Errorf("%s: %v, want field %q", body, err, field)
		}
	}
}

func TestDecodeNested(t *testing.T) {
	var got nestedBody
	if err := Decode([]byte(`{"name":"a","at":"2026-11-30T12:00:00Z","inner":{"deep":{"run":"x"}},"list":[{"run":"y"},{"env":{"A":"1"}}],"words":["w"]}`), &got); err != nil {
		t.Fatal(err)
	}
	x, y, at := "x", "y", time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC)
	want := nestedBody{
		Name: "a", At: &at, Inner: &inner{Deep: &inner{Run: &x}},
		List: &[]inner{{Run: &y}, {Env: &map[string]string{"A": "1"}}}, Words: &[]string{"w"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestDecodeNestedNamesTheField has one mistake each, somewhere within.
func TestDecodeNestedNamesTheField(t *testing.T) {
	for body, field := range map[string]string{
		`{"inner":{"Run":"x"}}`:                        "inner.Run",
		`{"inner":{"deep":{"x":1}}}`:                   "inner.deep.x",
		`{"inner":{"run":"a","run":"b"}}`:              "inner.run",
		`{"inner":{"run":null}}`:                       "inner.run",
		`{"inner":7}`:                                  "inner",
		`{"inner":[]}`:                                 "inner",
		`{"list":{}}`:                                  "list",
		`{"list":[{"run":"a"},{"walk":"b"}]}`:          "list[1].walk",
		`{"list":[{"run":"a"},null]}`:                  "list[1]",
		`{"list":[{"run":"a"},{"deep":{"run":true}}]}`: "list[1].deep.run",
		`{"list":[7]}`:                                 "list[0]",
		`{"list":[{"env":{"A":1}}]}`:                   "list[0].env.A",
		`{"list":[{"env":{"A":null}}]}`:                "list[0].env.A",
		`{"inner":{"env":{"A":"1","A":"2"}}}`:          "inner.env.A",
		`{"inner":{"env":[]}}`:                         "inner.env",
		`{"words":["a",null]}`:                         "words[1]",
		`{"words":"a"}`:                                "words",
		`{"bytes":[1,2]}`:                              "bytes",
		`{"bytes":"!"}`:                                "bytes",
		`{"name":[]}`:                                  "name",
		`{"at":"yesterday"}`:                           "at",
		`{"at":7}`:                                     "at",
		`{"words":[1]}`:                                "words[0]",
	} {
		err := Decode([]byte(body), new(nestedBody))
		var e *space.Error
		if !errors.As(err, &e) || e.Code != space.CodeInvalid || e.Field != field {
			t.Errorf("%s: %v, want field %s", body, err, field)
		}
	}
}

// TestHalfACharacter: the decoder would replace it silently.
func TestHalfACharacter(t *testing.T) {
	for text, ok := range map[string]bool{
		`\ud83d\ude00`:  true,
		`\\ud83d`:       true, // a backslash, and letters
		`\n\u00e4`:      true,
		`\ud800`:        false,
		`\udc00`:        false,
		`\uD83Dx\uDE00`: false,
		`\ud83d\ud83d`:  false,
		`\\\ud800`:      false,
	} {
		var got nestedBody
		err := Decode([]byte(`{"name":"`+text+`"}`), &got)
		if (err == nil) != ok {
			t.Errorf("%s: %v, want ok: %v", text, err, ok)
		}
		if err = Decode([]byte(`{"name":"a","inner":{"env":{"`+text+`":"x"}}}`), &got); (err == nil) != ok {
			t.Errorf("%s as a name: %v, want ok: %v", text, err, ok)
		}
	}
}

func TestWordsOfTheWrongType(t *testing.T) {
	err := Decode([]byte(`{"name":[]}`), new(nestedBody))
	if want := "invalid_request: name: has an array where a string is needed"; err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}
