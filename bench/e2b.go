package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"time"

	gen "github.com/space-platform/space/api/gen/http"
	"github.com/space-platform/space/client"
)

const (
	e2bRounds    = 200
	e2bStreams   = 8
	streamedSize = 64 << 20 // bytes of one stream
	maxAnswer    = 1 << 20  // bytes
)

// e2b measures what E2B's protocols cost beside the public API, on machines that cost nothing: the same is done in turn in both ways. What a new sandbox
// costs has the token in it, which E2B's SDKs get with the sandbox.
func (r *run) e2b(ctx context.Context) ([]result, error) {
	log.Print("E2B's protocols beside the public API")
	format := gen.KeyCreateFormatE2b
	key, err := r.load.client.CreateKey(ctx, client.KeyCreate{Name: "bench", Format: &format})
	if err != nil {
		return nil, err
	}
	b := e2bBench{
		run: r, key: key.Secret, control: fmt.Sprintf("http://127.0.0.1:%d", r.load.inst.E2BAPIPort()),
		data: fmt.Sprintf("http://127.0.0.1:%d", r.load.inst.E2BSandboxPort()),
	}
	var api, ours [3][]float64 // creations, commands, streams
	for n := range e2bRounds {
		if err := b.round(ctx, n, &api, &ours); err != nil {
			return nil, err
		}
	}
	over := func(name string, i int, goal float64) result {
		x := compare(name, ours[i], api[i])
		x.P50, x.P90, x.P99 = *x.OverBare, round(x.P90-percentile(api[i], 90)), round(x.P99-percentile(api[i], 99))
		x.Samples = nil
		return x.below(goal)
	}
	ratio := round(percentile(api[2], 50) / percentile(ours[2], 50))
	reached, goal := round(ratio/0.9), 0.9
	return []result{
		over("e2b_create_over_api_ms", 0, 3), over("e2b_command_over_api_ms", 1, 1),
		{Name: "e2b_stream_ratio", Unit: "ratio", N: len(ours[2]), P50: ratio, P90: ratio, P99: ratio, Goal: &goal, ToGoal: &reached},
	}, nil
}

type e2bBench struct {
	*run
	key, control, data string
}

// round does everything once in each way, the first of which changes.
func (b e2bBench) round(ctx context.Context, n int, api, ours *[3][]float64) error {
	ways := []func() error{func() error { return b.direct(ctx, n, api) }, func() error { return b.facade(ctx, n, ours) }}
	for i := range ways {
		if err := ways[(i+n)%len(ways)](); err != nil {
			return err
		}
	}
	return nil
}

// direct is the public API.
func (b e2bBench) direct(ctx context.Context, n int, into *[3][]float64) error {
	began := time.Now()
	s, err := b.load.client.CreateSandbox(ctx, client.SandboxCreate{Template: b.template})
	if err != nil {
		return err
	}
	into[0] = append(into[0], since(began))
	p, err := b.load.client.Plane(ctx, s.Id)
	if err != nil {
		return err
	}
	for i, argv := range b.commands(n) {
		began := time.Now()
		got, err := b.attach(ctx, p, argv)
		if err != nil {
			return err
		}
		into[1+i] = append(into[1+i], since(began))
		if i == 1 && got != streamedSize {
			return fmt.Errorf("%d bytes came of %d", got, streamedSize)
		}
	}
	return b.load.client.DeleteSandbox(ctx, s.Id)
}

// commands are those of a round; not each has a long one.
func (b e2bBench) commands(n int) [][]string {
	out := [][]string{{"/bin/echo", "hello"}}
	if n < e2bStreams {
		out = append(out, []string{"head", "-c", fmt.Sprint(streamedSize), "/dev/zero"})
	}
	return out
}

// attach runs a command and returns how many bytes it printed.
func (b e2bBench) attach(ctx context.Context, p *client.Plane, argv []string) (int, error) {
	got := 0
	for e, err := range p.Run(ctx, client.SessionCreate{Argv: &argv}) {
		if err != nil {
			return 0, err
		}
		got += len(e.Data)
	}
	return got, nil
}

// facade is what E2B's SDKs talk to.
func (b e2bBench) facade(ctx context.Context, n int, into *[3][]float64) error {
	began := time.Now()
	var s struct{ SandboxID, EnvdAccessToken string }
	if err := b.call(ctx, http.MethodPost, "/v2/sandboxes", map[string]string{"templateID": b.template}, &s); err != nil {
		return err
	}
	into[0] = append(into[0], since(began))
	for i, argv := range b.commands(n) {
		began := time.Now()
		got, err := b.start(ctx, s.EnvdAccessToken, argv)
		if err != nil {
			return err
		}
		into[1+i] = append(into[1+i], since(began))
		if i == 1 && got != streamedSize {
			return fmt.Errorf("%d bytes came of %d", got, streamedSize)
		}
	}
	return b.call(ctx, http.MethodDelete, "/sandboxes/"+s.SandboxID, nil, nil)
}

// start runs a command as an SDK does and returns how many bytes it printed. Messages are read as the public API's client reads its events.
func (b e2bBench) start(ctx context.Context, token string, argv []string) (int, error) {
	body, err := json.Marshal(map[string]any{"process": map[string]any{"cmd": argv[0], "args": argv[1:]}, "stdin": false})
	if err != nil {
		return 0, err
	}
	envelope := binary.BigEndian.AppendUint32([]byte{0}, uint32(len(body)))
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, b.data+"/process.Process/Start", bytes.NewReader(append(envelope, body...)))
	if err != nil {
		return 0, err
	}
	req.Header.Set("X-Access-Token", token)
	req.Header.Set("Content-Type", "application/connect+json")
	req.Header.Set("Connect-Protocol-Version", "1")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	defer func() { go finish(resp.Body) }()
	got, ended := 0, false
	for in := bufio.NewReaderSize(resp.Body, maxAnswer); ; {
		flags, message, err := readEnvelope(in)
		if err != nil {
			return 0, err
		}
		if flags&2 != 0 {
			if !ended {
				return 0, fmt.Errorf("a command's stream ended before the command: %s", message)
			}
			return got, nil
		}
		if text, ok := bytes.CutPrefix(message, []byte(`{"event":{"data":{"stdout":"`)); ok {
			data, err := base64.StdEncoding.AppendDecode(nil, bytes.TrimSuffix(text, []byte(`"}}}`)))
			if err != nil {
				return 0, err
			}
			got += len(data)
			continue
		}
		ended = ended || bytes.Contains(message, []byte(`"end"`))
	}
}

// finish reads what is left of a stream, its end, so that its connection is used again, as the public API's client does.
func finish(body io.ReadCloser) {
	defer body.Close()
	defer time.AfterFunc(time.Second, func() { body.Close() }).Stop()
	io.CopyN(io.Discard, body, maxAnswer)
}

// readEnvelope reads one message of a stream of Connect's.
func readEnvelope(in io.Reader) (flags byte, message []byte, err error) {
	var head [5]byte
	if _, err := io.ReadFull(in, head[:]); err != nil {
		return 0, nil, err
	}
	size := binary.BigEndian.Uint32(head[1:])
	if size > maxAnswer {
		return 0, nil, fmt.Errorf("a message of %d bytes", size)
	}
	message = make([]byte, size)
	_, err = io.ReadFull(in, message)
	return head[0], message, err
}

// call sends a document to the control API and reads the answer's.
func (b e2bBench) call(ctx context.Context, method, path string, in, out any) error {
	body, err := json.Marshal(in)
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, method, b.control+path, bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("X-API-Key", b.key)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer))
	if err != nil {
		return err
	}
	if resp.StatusCode >= http.StatusMultipleChoices {
		return fmt.Errorf("%s %s: %s: %s", method, path, resp.Status, answer)
	}
	if out == nil {
		return nil
	}
	return json.Unmarshal(answer, out)
}
