package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestOnceMore has a program in the place of a test binary, which fails as often as it's told to.
func TestOnceMore(t *testing.T) {
	const parents = "--- FAIL: TestA (1.00s)\n    --- FAIL: TestA/all (1.00s)\n"
	for name, c := range map[string]struct {
		prints string // at first
		second string // exit code of the second run
		code   int
		runs   []string
	}{
		"passes":           {prints: "--- PASS: TestA (1.00s)\n", runs: []string{"^TestA$"}},
		"passes then":      {prints: parents + "        --- FAIL: TestA/all/one's_(1) (1.00s)\n", second: "0", runs: []string{"^TestA$", `^TestA$/^all$/^one's_\(1\)$`}},
		"fails twice":      {prints: "--- FAIL: TestA (1.00s)\n", second: "3", code: 1, runs: []string{"^TestA$", "^TestA$"}},
		"breaks":           {prints: "panic: no\n", code: 1, runs: []string{"^TestA$"}},
		"has much company": {prints: strings.Repeat("--- FAIL: TestA (1.00s)\n", maxAgain+1), code: 1, runs: []string{"^TestA$"}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			program, log := filepath.Join(dir, "program"), filepath.Join(dir, "log")
			first := "1"
			if strings.HasPrefix(c.prints, "--- PASS") {
				first = "0"
			}
			script := "#!/bin/sh\nfor last; do :; done\n[ -e " + log + " ] || first=1\necho \"$last\" >>" + log + "\n[ -z \"$first\" ] || { cat " + dir + "/prints; exit " + first + "; }\nexit " + c.second + "\n"
			for path, text := range map[string]string{program: script, filepath.Join(dir, "prints"): c.prints} {
				if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
					t.Fatal(err)
				}
			}
			var out strings.Builder
			if code := again([]string{program, "-test.v", "-test.run", "^TestA$"}, &out); code != c.code {
				t.Errorf("it ended with %d, want %d: %s", code, c.code, out.String())
			}
			got, err := os.ReadFile(log)
			if want := strings.Join(c.runs, "\n") + "\n"; err != nil || string(got) != want {
				t.Errorf("it ran\n%s, want\n%s, %v", got, want, err)
			}
			if len(c.runs) > 1 && !strings.Contains(out.String(), "failed and were run once more: TestA") {
				t.Errorf("it doesn't say so: %s", out.String())
			}
		})
	}
}
