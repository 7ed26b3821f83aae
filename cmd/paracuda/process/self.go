// SPDX-License-Identifier: Apache-2.0

package process

import "os"

// ThisProgram is the file that a process was started from, whatever has its path now.
const ThisProgram = "/proc/self/exe"

// Self is this program's file. An upgrade may replace it while VMs run: their workers must still be
// of the device process's version.
func Self() string {
	path, err := os.Executable()
	if err != nil {
		return ThisProgram
	}
	return selfAt(path)
}

func selfAt(path string) string {
	there, err := os.Stat(path)
	if err != nil {
		return ThisProgram
	}
	if mine, err := os.Stat(ThisProgram); err == nil && !os.SameFile(mine, there) {
		return ThisProgram
	}
	return path
}
