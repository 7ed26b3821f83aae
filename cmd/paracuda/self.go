// SPDX-License-Identifier: Apache-2.0

package main

import "os"

// thisProgram is the file that a process was started from, whatever has its path now.
const thisProgram = "/proc/self/exe"

// self is this program's file. An upgrade may replace it while VMs run: their workers must still be
// of the device process's version.
func self() string {
	path, err := os.Executable()
	if err != nil {
		return thisProgram
	}
	return selfAt(path)
}

func selfAt(path string) string {
	there, err := os.Stat(path)
	if err != nil {
		return thisProgram
	}
	if mine, err := os.Stat(thisProgram); err == nil && !os.SameFile(mine, there) {
		return thisProgram
	}
	return path
}
