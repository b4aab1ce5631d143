// Package presets tests the presets of package backend against stand-ins for the
// providers of native libraries. It has a test binary of its own because a provider's
// name can be registered only once in a process.
package presets
