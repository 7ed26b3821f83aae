// SPDX-License-Identifier: Apache-2.0

package sandbox

import (
	"fmt"
	"os"

	"github.com/landlock-lsm/go-landlock/landlock"
	ll "github.com/landlock-lsm/go-landlock/landlock/syscall"
)

// landlocked handles all rights to files that both the package and the kernel know. It holds for
// all threads, also those that libraries have made.
var landlocked = landlock.V5.BestEffort()

// Landlock is the kernel's version of Landlock, by which a process gives up access to files. With
// an error, OnlyFiles does nothing.
func Landlock() (version int, err error) {
	if version, err = ll.LandlockGetABIVersion(); err != nil {
		return 0, fmt.Errorf("landlock_create_ruleset: %w", err)
	}
	return version, nil
}

// Files are what a process may still open, by absolute paths. Paths that don't exist are left out.
type Files struct {
	ReadOnly  []string // files, and folders with all in them
	Devices   []string // device files, to read, write and control
	Writable  []string // folders, to read, write, make and remove files in
	Removable []string // folders, to remove files in
}

// OnlyFiles keeps this process from opening, making or removing any other file by its path, and
// from using TCP, as far as the kernel can (Landlock). Open files stay open.
func OnlyFiles(f Files) error {
	var rules []landlock.Rule
	for _, path := range f.ReadOnly {
		if info, err := os.Stat(path); err == nil && info.IsDir() {
			rules = append(rules, landlock.RODirs(path).IgnoreIfMissing())
		} else {
			rules = append(rules, landlock.ROFiles(path).IgnoreIfMissing())
		}
	}
	if len(f.Devices) > 0 {
		rules = append(rules,
			landlock.RWFiles(f.Devices...).WithIoctlDev().IgnoreIfMissing())
	}
	if len(f.Writable) > 0 {
		rules = append(rules, landlock.RWDirs(f.Writable...).IgnoreIfMissing())
	}
	if len(f.Removable) > 0 {
		rules = append(rules,
			landlock.PathAccess(ll.AccessFSRemoveFile, f.Removable...).IgnoreIfMissing())
	}
	if err := landlocked.Restrict(rules...); err != nil {
		return fmt.Errorf("give files up: %w", err)
	}
	return nil
}
