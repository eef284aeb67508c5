package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/term"
)

const (
	progressAfter = time.Second            // what is quicker needs no word
	progressEvery = 500 * time.Millisecond // between updates of the line
)

// progress keeps one line on a terminal up to date while something takes long. Elsewhere it says nothing.
type progress struct {
	to   io.Writer
	stop chan struct{}
	done sync.WaitGroup
	once sync.Once

	mu    sync.Mutex
	text  string
	bytes int64 // that went by, if any are counted
	total int64 // of them; 0: nobody knows
}

// startProgress begins to wait with the user. end must be called before anything else is written.
func startProgress(to io.Writer, text string) *progress {
	p := &progress{to: to, stop: make(chan struct{}), text: text}
	if isTerminal(to) {
		p.done.Go(p.draw)
	}
	return p
}

// isTerminal tells whether a reader or writer is a terminal.
func isTerminal(stream any) bool {
	f, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// say changes the text.
func (p *progress) say(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.text = text
}

// count counts the bytes that are read from r, of a total that is known unless it's 0.
func (p *progress) count(r io.Reader, total int64) io.Reader {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.total = total
	return countedReader{r, p}
}

// countWritten counts what is written, until ctx ends.
func (p *progress) countWritten(ctx context.Context, to io.Writer, write func(io.Writer) error) (int64, error) {
	w := &countedWriter{ctx: ctx, to: to, progress: p}
	err := write(w)
	p.mu.Lock()
	defer p.mu.Unlock()
	n := p.bytes
	p.bytes = 0
	return n, err
}

type countedWriter struct {
	ctx      context.Context
	to       io.Writer
	progress *progress
}

func (c *countedWriter) Write(b []byte) (int, error) {
	if err := context.Cause(c.ctx); err != nil {
		return 0, err
	}
	n, err := c.to.Write(b)
	c.progress.mu.Lock()
	defer c.progress.mu.Unlock()
	c.progress.bytes += int64(n)
	return n, err
}

// above writes a line above the one that is kept up to date.
func (p *progress) above(line string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if isTerminal(p.to) {
		fmt.Fprint(p.to, "\r\x1b[K")
	}
	fmt.Fprintln(p.to, printable(line, ""))
}

// countedReader shows how far a reader is.
type countedReader struct {
	io.Reader
	progress *progress
}

func (c countedReader) Read(b []byte) (int, error) {
	n, err := c.Reader.Read(b)
	c.progress.mu.Lock()
	defer c.progress.mu.Unlock()
	c.progress.bytes += int64(n)
	return n, err
}

// end clears the line. To end it again does nothing.
func (p *progress) end() {
	p.once.Do(func() { close(p.stop) })
	p.done.Wait()
}

// before is a writer that shows nothing more of the progress once something is written: to the same terminal, say.
func (p *progress) before(w io.Writer) io.Writer { return endsProgress{w, p} }

type endsProgress struct {
	io.Writer
	progress *progress
}

func (e endsProgress) Write(b []byte) (int, error) {
	e.progress.end()
	return e.Writer.Write(b)
}

func (p *progress) draw() {
	began := time.Now()
	tick := time.NewTicker(progressEvery)
	defer tick.Stop()
	for {
		select {
		case <-p.stop:
			if time.Since(began) >= progressAfter {
				fmt.Fprint(p.to, "\r\x1b[K")
			}
			return
		case <-tick.C:
			p.line(time.Since(began))
		}
	}
}

func (p *progress) line(since time.Duration) {
	if since < progressAfter {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	fmt.Fprintf(p.to, "\r\x1b[K%s … %s%.0f s", printable(p.text, ""), p.share(), since.Seconds())
}

// share is how much of the bytes went by; mu is held.
func (p *progress) share() string {
	switch {
	case p.bytes == 0:
		return ""
	case p.total == 0:
		return size(p.bytes) + ", "
	default:
		return size(p.bytes) + " of " + size(p.total) + ", "
	}
}
