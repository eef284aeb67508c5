package strictjson

import (
	"encoding/json"
	"reflect"
	"testing"

	gen "github.com/space-platform/space/api/gen/http"
)

// FuzzDecode holds that what is taken is what the library reads, and what it reads again when it's written.
func FuzzDecode(f *testing.F) {
	for _, s := range []string{
		`{}`, `{"argv":["a"],"env":{"A":"b"},"stdin":"aGk="}`, `{"shell":"a"}{}`, `{"shell":null}`, `[]`, `{"shell":"a","shell":"b"}`, `{"SHELL":"a"}`,
		`{"timeout_seconds":3.0,"tty":{"rows":1e1,"cols":2}}`, `{"timeout_seconds":1e999}`, `{"timeout_seconds":0.5}`, `{"shell":"\\ud800"}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var strict, again gen.SessionCreate
		if Decode(b, &strict) != nil {
			return
		}
		if !json.Valid(b) {
			t.Fatalf("%q was taken", b)
		}
		written, err := json.Marshal(strict)
		if err != nil {
			t.Fatalf("%q can't be written again: %v", b, err)
		}
		if err := json.Unmarshal(written, &again); err != nil || !reflect.DeepEqual(strict, again) {
			t.Fatalf("%q is %+v, and %+v when it's written and read: %v", b, strict, again, err)
		}
	})
}

func TestWholeNumbers(t *testing.T) {
	for text, want := range map[string]int{`3`: 3, `3.0`: 3, `3e1`: 30, `-2.00`: -2, `0.5`: -1, `1e30`: -1, `1e999`: -1, `"3"`: -1, `9007199254740993.0`: -1} {
		var got struct {
			N int `json:"n"`
		}
		err := Decode([]byte(`{"n":`+text+`}`), &got)
		if (err == nil) != (want != -1) || err == nil && got.N != want {
			t.Errorf("%s is %d, %v; want %d", text, got.N, err, want)
		}
	}
}
