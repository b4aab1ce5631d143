package onward

import (
	"log/slog"
	"sync/atomic"
)

var defaults struct {
	logger   atomic.Pointer[slog.Logger]
	severity atomic.Int64
	seed     atomic.Uint64
}

// SetDefaultLogger sets the logger of sessions that are opened without one. Nil stands
// for [slog.Default].
func SetDefaultLogger(l *slog.Logger) { defaults.logger.Store(l) }

// DefaultLogger returns the logger set by [SetDefaultLogger], or [slog.Default] if none
// is set. It drops records below the severity set by [SetDefaultLogSeverity].
func DefaultLogger() *slog.Logger { return new(SessionOptions).log() }

// SetDefaultLogSeverity sets the lowest severity that is logged if neither the session
// nor the run sets one. [LogDefault] stands for [LogWarning].
func SetDefaultLogSeverity(s LogSeverity) { defaults.severity.Store(int64(s)) }

// SetSeed sets the seed of random operators that have no seed attribute, for runs whose
// options do not set one. The initial seed is 0. With one seed, every run of a session
// draws the same numbers.
func SetSeed(seed uint64) { defaults.seed.Store(seed) }

// DefaultSeed returns the seed set by [SetSeed].
func DefaultSeed() uint64 { return defaults.seed.Load() }

// log returns the logger of a session with these options. It drops records below the
// session's severity.
func (o *SessionOptions) log() *slog.Logger { return o.severity().Filter(o.logger()) }

// logger returns the logger with the session's name added, for records of all
// severities.
func (o *SessionOptions) logger() *slog.Logger {
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
	return l
}

// severity returns the severity of the session if it is set, else that of the process.
// It returns LogDefault if neither is set.
func (o *SessionOptions) severity() LogSeverity {
	if o.LogSeverity != LogDefault {
		return o.LogSeverity
	}
	return LogSeverity(defaults.severity.Load())
}
