// Package progress shows the progress of a long task on a terminal.
package progress

import (
	"fmt"
	"io"
	"os"
	"time"

	"github.com/schollz/progressbar/v3"

	"github.com/onward-ml/onward/cmd/onward/internal/text"
)

const (
	throttle  = 100 * time.Millisecond
	itemWidth = 24
)

// Bar is a progress bar. A nil Bar does nothing.
type Bar struct {
	bar  *progressbar.ProgressBar
	task string
}

// New returns a bar on w for a task that counts units, such as "batches", or nil if w is not
// a terminal.
func New(w io.Writer, task, units string) *Bar {
	if !isTerminal(w) {
		return nil
	}
	return newBar(w, task, units, throttle)
}

// NewTimed is New for a bar that shows the time left, too.
func NewTimed(w io.Writer, task, units string) *Bar {
	if !isTerminal(w) {
		return nil
	}
	return newBar(w, task, units, throttle, progressbar.OptionSetPredictTime(true))
}

// newBar returns a bar that is drawn at most once per interval, or at each step if the
// interval is 0.
func newBar(w io.Writer, task, units string, interval time.Duration, more ...progressbar.Option) *Bar {
	options := []progressbar.Option{progressbar.OptionSetWriter(w), progressbar.OptionSetDescription(task),
		progressbar.OptionSetItsString(units), progressbar.OptionShowIts(), progressbar.OptionShowCount(),
		progressbar.OptionSetWidth(10), progressbar.OptionSetPredictTime(false), // so that a line fits in 80 columns
		progressbar.OptionThrottle(interval), progressbar.OptionClearOnFinish()}
	return &Bar{task: task, bar: progressbar.NewOptions(-1, append(options, more...)...)}
}

// Step shows that done of total units are finished. A total of 0 means unknown. item, which
// may be empty, names the unit in progress.
func (b *Bar) Step(done, total int, item string) {
	if b == nil {
		return
	}
	if total > 0 && b.bar.GetMax() != total {
		b.bar.ChangeMax(total)
	}
	if item != "" {
		b.bar.Describe(fmt.Sprintf("%s %-*s", b.task, itemWidth, shorten(text.Name(item))))
	}
	b.bar.Set(done)
}

// Finish removes the bar.
func (b *Bar) Finish() {
	if b != nil {
		b.bar.Finish()
	}
}

// shorten cuts a name to itemWidth runes.
func shorten(s string) string {
	r := []rune(s)
	if len(r) <= itemWidth {
		return s
	}
	return string(r[:itemWidth-1]) + "…"
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	fi, err := f.Stat()
	return err == nil && fi.Mode()&os.ModeCharDevice != 0
}
