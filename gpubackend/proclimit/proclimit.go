// SPDX-License-Identifier: Apache-2.0

// Package proclimit reads the host's limits for a process. What a guest can make a process take is
// bounded well below them: a Go program that gets no more mappings from the kernel crashes.
package proclimit

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Linux's defaults.
const (
	usualMappings = 65530
	usualFiles    = 1024
)

// Mappings is how many mappings a process may have.
func Mappings() int { return mappingsIn("/proc/sys/vm/max_map_count") }

func mappingsIn(path string) int {
	text, err := os.ReadFile(path)
	if err != nil {
		return usualMappings
	}
	n, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil || n <= 0 {
		return usualMappings
	}
	return n
}

// Memfd tries to make memory that processes share, and closes it.
func Memfd() error {
	fd, err := unix.MemfdCreate("paracuda", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return fmt.Errorf("make memory that processes share: memfd_create: %w", err)
	}
	defer unix.Close(fd)
	if err := unix.Ftruncate(fd, 1<<20); err != nil {
		return fmt.Errorf("make memory that processes share: ftruncate: %w", err)
	}
	return nil
}

// Files is how many files this process may have open.
func Files() int {
	var l unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &l) != nil {
		return usualFiles
	}
	return int(min(l.Cur, 1<<30))
}

// Own is how many descriptors a worker has for itself: higher numbers stand for files of its
// guest's memory (package sandbox).
const Own = 1 << 14

// WorkerFiles is how many files a worker may have open.
func WorkerFiles() int { return min(Files(), Own) }
