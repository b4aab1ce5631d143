package driver

import (
	"context"
	"log/slog"
)

// LogSeverity is the severity of a log record. The numbers are ONNX Runtime's plus one,
// so that zero stands for the default.
type LogSeverity int

// The severities.
const (
	LogDefault LogSeverity = iota // the severity of the session, or else of the process
	LogVerbose                    // slog.LevelDebug
	LogInfo                       // slog.LevelInfo
	LogWarning                    // slog.LevelWarn
	LogError                      // slog.LevelError
	LogFatal                      // above slog.LevelError
)

// Level returns the corresponding [slog.Level]; for LogDefault, that of LogWarning.
func (s LogSeverity) Level() slog.Level {
	const step = 4
	if s == LogDefault {
		s = LogWarning
	}
	return slog.LevelDebug + step*slog.Level(s-LogVerbose)
}

// Filter returns a logger that passes records of severity s and above to l.
func (s LogSeverity) Filter(l *slog.Logger) *slog.Logger {
	return slog.New(atLeast{l.Handler(), s.Level()})
}

// atLeast is a handler that drops records below a level.
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
