package rootfs

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/space-platform/space/internal/host/image"
)

// loginFD is where a helper finds the login for its image's registry: the reading end of a pipe that has it whole. Neither a command line nor an
// environment shows it.
const loginFD = 3

// maxLogin bounds a login on the pipe, in bytes; a pipe takes more without a reader.
const maxLogin = 32 << 10

// sendLogin returns the end to read a login from.
func sendLogin(l image.Login) (*os.File, error) {
	b, err := json.Marshal(l)
	if err != nil || len(b) > maxLogin {
		return nil, fmt.Errorf("send the registry's login: it has %d bytes, limit %d", len(b), maxLogin)
	}
	r, w, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("send the registry's login: %w", err)
	}
	defer w.Close()
	if _, err := w.Write(b); err != nil {
		r.Close()
		return nil, fmt.Errorf("send the registry's login: %w", err)
	}
	return r, nil
}

// receiveLogin takes the login off the pipe in the helper that is shut in; before that it stays there.
func (o *Order) receiveLogin(task string) error {
	if !o.LoginFollows || !strings.HasPrefix(task, insideMark) {
		return nil
	}
	f := os.NewFile(loginFD, "login")
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxLogin))
	if err != nil {
		return err
	}
	return json.Unmarshal(b, &o.login)
}
