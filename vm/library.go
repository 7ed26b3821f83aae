// SPDX-License-Identifier: Apache-2.0

package vm

import (
	"bytes"
	"debug/elf"
	"os"
	"path/filepath"
	"slices"
)

// The names by which programs find the driver's libraries.
var driverLibraries = []string{"libcuda.so.1", "libnvidia-ml.so.1", "libcuda.so"}

// libraryCache is what ldconfig has found on the host.
const libraryCache = "/etc/ld.so.cache"

// libraryDirs are the directories where the dynamic loader of a program looks for the driver's
// libraries: those in which ldconfig has seen one, else the loader's own.
func libraryDirs(cache string) []string {
	var dirs []string
	text, _ := os.ReadFile(cache)
	for _, s := range bytes.Split(text, []byte{0}) {
		file := string(s)
		dir := filepath.Dir(file)
		wanted := filepath.IsAbs(file) && slices.Contains(driverLibraries, filepath.Base(file))
		if !wanted || !native(file) {
			continue
		}
		if real, ok := layered(dir); ok && !slices.Contains(dirs, real) {
			dirs = append(dirs, real)
		}
	}
	for _, dir := range []string{"/usr/lib/x86_64-linux-gnu", "/usr/lib64"} {
		if real, ok := layered(dir); ok && len(dirs) == 0 {
			dirs = append(dirs, real)
		}
	}
	return dirs
}

// native tells whether a library is for programs of 64 bits.
func native(file string) bool {
	f, err := elf.Open(file)
	if err != nil {
		return false
	}
	defer f.Close()
	return f.Class == elf.ELFCLASS64
}
