package onward

import (
	"context"
	"log/slog"
	"sync/atomic"
)

// LogSeverity is how much a log record matters. The numbers are ONNX Runtime's
// plus one, so that zero stands for the default.
type LogSeverity int

// The severities.
const (
	LogDefault LogSeverity = iota // that of the session, or of the process
	LogVerbose                    // slog.LevelDebug
	LogInfo                       // slog.LevelInfo
	LogWarning                    // slog.LevelWarn
	LogError                      // slog.LevelError
	LogFatal                      // above slog.LevelError
)

// Level returns the level of log/slog; LogDefault's is that of a warning.
func (s LogSeverity) Level() slog.Level {
	const step = 4
	if s == LogDefault {
		s = LogWarning
	}
	return slog.LevelDebug + step*slog.Level(s-LogVerbose)
}

var defaults struct {
	logger   atomic.Pointer[slog.Logger]
	severity atomic.Int64
	seed     atomic.Uint64
}

// SetDefaultLogger sets the logger of sessions that name none; nil stands for
// slog.Default.
func SetDefaultLogger(l *slog.Logger) { defaults.logger.Store(l) }

// SetDefaultLogSeverity sets the lowest severity that is logged where neither the
// session nor the run says otherwise; LogDefault stands for LogWarning.
func SetDefaultLogSeverity(s LogSeverity) { defaults.severity.Store(int64(s)) }

// SetSeed sets the seed of random operators without one of their own, for runs that
// give none. Until then it is 0, and every run of a session draws the same numbers.
func SetSeed(seed uint64) { defaults.seed.Store(seed) }

// DefaultSeed returns what [SetSeed] has set.
func DefaultSeed() uint64 { return defaults.seed.Load() }

// Log returns the logger that the options ask for: it has the session's name and
// drops what is below the severity.
func (o *SessionOptions) Log() *slog.Logger {
	l := o.Logger
	if l == nil {
		l = defaults.logger.Load()
	}
	if l == nil {
		l = slog.Default()
	}
	if o.LogID != "" {
		l = l.With("session", o.LogID)
	}
	return slog.New(atLeast{l.Handler(), o.Severity().Level()})
}

// Severity returns the lowest severity that the session logs, never LogDefault.
func (o *SessionOptions) Severity() LogSeverity {
	if o.LogSeverity != LogDefault {
		return o.LogSeverity
	}
	if s := LogSeverity(defaults.severity.Load()); s != LogDefault {
		return s
	}
	return LogWarning
}

// atLeast drops the records below a level.
type atLeast struct {
	slog.Handler
	level slog.Level
}

func (h atLeast) Enabled(ctx context.Context, l slog.Level) bool {
	return l >= h.level && h.Handler.Enabled(ctx, l)
}

func (h atLeast) WithAttrs(a []slog.Attr) slog.Handler {
	return atLeast{h.Handler.WithAttrs(a), h.level}
}

func (h atLeast) WithGroup(name string) slog.Handler {
	return atLeast{h.Handler.WithGroup(name), h.level}
}
