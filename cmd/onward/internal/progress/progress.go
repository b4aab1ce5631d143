// Package progress shows the progress of a long task on a terminal.
package progress

import (
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/onward-ml/onward/cmd/onward/internal/text"
)

const (
	throttle  = 100 * time.Millisecond
	itemWidth = 24
	barWidth  = 10
)

// Bar is a progress bar: one line that each step draws again. A nil Bar does nothing.
type Bar struct {
	mu          sync.Mutex
	w           io.Writer
	task, units string
	timed       bool          // show the time left
	interval    time.Duration // between two drawings
	now         func() time.Time
	start, last time.Time
	width       int // runes of the line that is drawn
}

// New returns a bar on w for a task that counts units, such as "batches", or nil if w is not
// a terminal.
func New(w io.Writer, task, units string) *Bar {
	if !IsTerminal(w) {
		return nil
	}
	return newBar(w, task, units, throttle, time.Now)
}

// NewTimed is New for a bar that shows the time left, too.
func NewTimed(w io.Writer, task, units string) *Bar {
	b := New(w, task, units)
	if b != nil {
		b.timed = true
	}
	return b
}

// newBar returns a bar that is drawn at most once per interval, or at each step if the
// interval is 0.
func newBar(w io.Writer, task, units string, interval time.Duration, now func() time.Time) *Bar {
	return &Bar{w: w, task: task, units: units, interval: interval, now: now, start: now()}
}

// Step shows that done of total units are finished. A total of 0 means unknown. item, which
// may be empty, names the unit in progress.
func (b *Bar) Step(done, total int, item string) {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	now := b.now()
	if !b.last.IsZero() && now.Sub(b.last) < b.interval {
		return
	}
	b.last = now
	line := b.task
	if item != "" {
		line += fmt.Sprintf(" %-*s", itemWidth, shorten(text.Name(item)))
	}
	count := fmt.Sprint(done)
	if total > 0 {
		full := barWidth * min(done, total) / total
		line += fmt.Sprintf(" %3d%% |%s%s|", 100*min(done, total)/total, strings.Repeat("█", full),
			strings.Repeat(" ", barWidth-full))
		count += fmt.Sprintf("/%d", total)
	}
	spent := now.Sub(b.start)
	if spent > 0 {
		line += fmt.Sprintf(" (%s, %.3g %s/s)", count, float64(done)/spent.Seconds(), b.units)
	} else {
		line += fmt.Sprintf(" (%s %s)", count, b.units)
	}
	if b.timed && done > 0 && total > done {
		left := time.Duration(float64(spent) * float64(total-done) / float64(done))
		line += fmt.Sprintf(" %v left", left.Round(time.Second))
	}
	b.draw(line)
}

// draw writes a line over the one before.
func (b *Bar) draw(line string) {
	n := utf8.RuneCountInString(line)
	fmt.Fprintf(b.w, "\r%s%s", line, strings.Repeat(" ", max(0, b.width-n)))
	b.width = n
}

// Finish removes the bar.
func (b *Bar) Finish() {
	if b == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.draw("")
	fmt.Fprint(b.w, "\r")
}

// shorten cuts a name to itemWidth runes.
func shorten(s string) string {
	r := []rune(s)
	if len(r) <= itemWidth {
		return s
	}
	return string(r[:itemWidth-1]) + "…"
}

// IsTerminal reports whether w is a terminal: a character device other than the null device.
func IsTerminal(w io.Writer) bool {
	f, ok := w.(interface{ Stat() (os.FileInfo, error) })
	if !ok {
		return false
	}
	fi, err := f.Stat()
	if err != nil || fi.Mode()&os.ModeCharDevice == 0 {
		return false
	}
	null, err := os.Stat(os.DevNull)
	return err != nil || !os.SameFile(fi, null)
}
