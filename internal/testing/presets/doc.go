// Package presets tests package preset with fake providers under the names of those of native
// libraries. It has its own test binary, since a name can be registered only once in a process
// and the examples of package preset need the names to be unregistered.
package presets
