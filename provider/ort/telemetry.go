package ort

import (
	"fmt"
	"os"
	"sync"

	"github.com/onward-ml/onward/internal/dl"
)

// TelemetryEnv is the environment variable that turns ONNX Runtime's telemetry off. Official
// builds from release 1.29 on send model names and hashes by default, on Linux and macOS too. The
// providers set the variable to 1 before they open the library, unless it is set already: 0
// leaves the telemetry on.
const TelemetryEnv = "ORT_DISABLE_TELEMETRY"

// keepsTelemetry reports whether the user asked for telemetry.
func keepsTelemetry() bool { return os.Getenv(TelemetryEnv) == "0" }

// withoutTelemetry sets TelemetryEnv. ONNX Runtime reads it once, when its environment is created,
// and writes a device id to the user's cache folder if it is not set then.
var withoutTelemetry = sync.OnceValue(func() error {
	if _, ok := os.LookupEnv(TelemetryEnv); ok {
		return nil
	}
	if err := dl.SetEnv(TelemetryEnv, "1"); err != nil {
		return fmt.Errorf("ONNX Runtime is not opened, because its telemetry cannot be turned off: %w; set %s=1, or "+
			"0 to leave it on", err, TelemetryEnv)
	}
	return nil
})
