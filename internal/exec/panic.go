package exec

import "os"

// crashOnPanic lets a panic of an operator through instead of turning it into an
// error of the run. Tests and fuzz targets set it, so that a broken invariant is
// found rather than reported.
var crashOnPanic = os.Getenv("ONWARD_CRASH") != ""

// CrashOnPanic makes panics of operators pass through; for tests.
func CrashOnPanic() { crashOnPanic = true }
