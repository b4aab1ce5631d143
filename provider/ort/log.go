package ort

import (
	"context"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/onward-ml/onward"
	"github.com/onward-ml/onward/driver"
	"github.com/onward-ml/onward/internal/dl"
)

// loggers maps the log ID of each session to its logger. The OrtEnv has one callback for
// all sessions.
var (
	loggers  sync.Map // string → *slog.Logger
	sessions atomic.Int64
)

// register returns a log ID for a session; records with it go to the session's logger.
func register(o *driver.Options) string {
	id := o.LogID + "#" + strconv.FormatInt(sessions.Add(1), 10)
	all := driver.Options{Logger: o.Logger, LogSeverity: driver.LogVerbose} // ONNX Runtime filters by severity
	loggers.Store(id, all.Log())
	return id
}

func unregister(id string) { loggers.Delete(id) }

// logCallback returns the OrtLoggingFunction.
var logCallback = sync.OnceValue(func() uintptr {
	return dl.Callback(func(_, severity, category, logID, location, message uintptr) uintptr {
		logRecord(int32(severity), dl.String(category), dl.String(logID), dl.String(location), dl.String(message))
		return 0
	})
})

// logRecord passes a record of ONNX Runtime to its session's logger. The records of a run
// with a tag have the log ID "session:tag".
func logRecord(severity int32, category, id, location, message string) {
	tag := ""
	l, ok := loggers.Load(id)
	for i := range id {
		if ok {
			break
		}
		if id[i] == ':' {
			if l, ok = loggers.Load(id[:i]); ok {
				tag = id[i+1:]
			}
		}
	}
	if !ok {
		if i := strings.LastIndexByte(id, '#'); i >= 0 {
			return // the session has been closed
		}
		l = onward.DefaultLogger()
	}
	attrs := []any{"category", category, "at", location}
	if tag != "" {
		attrs = append(attrs, "run", tag)
	}
	l.(*slog.Logger).Log(context.Background(), driver.LogSeverity(severity+1).Level(), message, attrs...)
}
