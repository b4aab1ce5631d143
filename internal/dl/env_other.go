//go:build !(((linux && (386 || amd64 || arm || arm64 || loong64 || ppc64le || riscv64)) || darwin) && !android && !ios && !faketime)

package dl

import "os"

// SetEnv sets an environment variable. On Windows, C code that asks the system for it sees it.
func SetEnv(name, value string) error { return os.Setenv(name, value) }
