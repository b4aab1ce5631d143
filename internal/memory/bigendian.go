//go:build armbe || arm64be || m68k || mips || mips64 || mips64p32 || ppc || ppc64 || s390 || s390x || shbe || sparc || sparc64

package memory

// ONNX stores numbers with the lowest byte first, and Onward reads them where they are in a file.
// This line refuses the build on a processor that stores them otherwise.
var _ = onward_needs_a_little_endian_processor
