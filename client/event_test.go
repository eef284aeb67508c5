package client

import (
	"bytes"
	"encoding/json"
	"testing"
)

// FuzzPlainData: what takes the short way is what the long one reads.
func FuzzPlainData(f *testing.F) {
	f.Add([]byte(`{"data":"aGVsbG8K"}`))
	f.Add([]byte(`{"data":"","at":"x"}`))
	f.Add([]byte(`{"data":"aGVs\u0062G8K"}`))
	f.Fuzz(func(t *testing.T, document []byte) {
		data, ok := plainData(document)
		if !ok || bytes.ContainsAny(document, "\r\n") { // an event's data has no ends of lines
			return
		}
		var p payload
		if err := json.Unmarshal(document, &p); err != nil || !bytes.Equal(data, p.Data) {
			t.Errorf("%q: %q, not %q (%v)", document, data, p.Data, err)
		}
	})
}
