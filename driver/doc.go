// Package driver defines what a provider implements, as database/sql/driver does for
// databases. Programs that run models use package onward; only providers import this
// package.
//
// A provider registers itself in an init function, so that a blank import enables it:
//
//	func init() { driver.Register(provider{}) }
//
// [Provider] and [Engine] are required. A provider implements [Describer] when it takes
// models otherwise than from memory, and [LibraryUser] when it opens a native library. An
// engine implements [Binder], [Allocator] and [Profiler] when it works on memory of the
// caller, has memory on devices, and writes profiles of its own.
package driver
