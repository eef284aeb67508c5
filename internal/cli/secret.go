package cli

import (
	"fmt"
	"io"
	"os"
	"strings"
)

// maxSecret bounds an API key or a token, in bytes. The platform's own are below 100.
const maxSecret = 1 << 10

// secretKind is what a source should hold.
type secretKind struct{ name, hint string }

var (
	apiKey       = secretKind{"API key", "a key is one line, as 'space key create' prints it"}
	sandboxToken = secretKind{"sandbox token", "a token is one line, or a document, as 'space sandbox token create' prints them"}
)

// in returns the secret that a source holds, with nothing around it. What couldn't be sent is refused here, and never shown.
func (k secretKind) in(source, text string) (string, error) {
	secret := strings.TrimSpace(text)
	why := ""
	switch {
	case secret == "":
		why = "is empty"
	case len(secret) > maxSecret:
		why = fmt.Sprintf("is longer than %d bytes", maxSecret)
	case strings.ContainsAny(secret, "\r\n"):
		why = "has more than one line"
	case strings.ContainsFunc(secret, func(r rune) bool { return r <= ' ' || r >= 0x7f }):
		why = "has a character that is no letter, digit or punctuation mark of ASCII"
	default:
		return secret, nil
	}
	return "", ErrorWithHint("not_configured", k.hint, "%s holds no %s: it %s", source, k.name, why)
}

// read reads a file that holds a secret, up to a number of bytes.
func (k secretKind) read(path string, most int64) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("read the %s: %w", k.name, err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, most+1))
	if err != nil {
		return "", fmt.Errorf("read the %s: %w", k.name, err)
	}
	if int64(len(b)) > most {
		return "", ErrorWithHint("not_configured", k.hint, "%s holds no %s: it is longer than %d bytes", path, k.name, most)
	}
	return string(b), nil
}
