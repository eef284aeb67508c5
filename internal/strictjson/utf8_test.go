package strictjson

import (
	"testing"

	space "github.com/space-platform/space"
)

func TestBodyOfBrokenUTF8IsRefused(t *testing.T) {
	var into struct {
		Shell string `json:"shell"`
	}
	if err := Decode([]byte("{\"shell\":\"rm \xff\"}"), &into); space.CodeOf(err) != space.CodeInvalid || into.Shell != "" {
		t.Errorf("got %q, %v", into.Shell, err)
	}
	if err := Decode([]byte(`{"shell":"echo ü"}`), &into); err != nil || into.Shell != "echo ü" {
		t.Errorf("got %q, %v", into.Shell, err)
	}
}
