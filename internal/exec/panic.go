package exec

import "os"

// crashOnPanic lets a panic of an operator crash the program instead of converting it to an error,
// and panics if a run ends with memory reserved. Tests and fuzz targets set it, so that broken
// invariants are found.
var crashOnPanic = os.Getenv("ONWARD_CRASH") != ""

// CrashOnPanic makes panics of operators crash the program. It is for tests.
func CrashOnPanic() { crashOnPanic = true }
