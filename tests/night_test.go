// SPDX-License-Identifier: Apache-2.0

package tests

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

// atNight says that each test runs in full, as in make nightly.
var atNight = os.Getenv("PARACUDA_NIGHTLY") != ""

// needsNight skips a test by day, since it takes long. The others test parts of it.
func needsNight(t *testing.T, others string) {
	t.Helper()
	if !atNight {
		skip(t, "it takes long: make nightly runs it; %s", others)
	}
}

// releases are the releases of QEMU with which a test runs: all at night, and one by day. The tests
// take different ones, so that each release is tested by day.
func releases(t *testing.T, all []string, byDay string) []string {
	t.Helper()
	if !slices.Contains(all, byDay) {
		t.Fatalf("QEMU %s is none of %v", byDay, all)
	}
	if atNight {
		return all
	}
	left := slices.DeleteFunc(slices.Clone(all), func(v string) bool { return v == byDay })
	fmt.Printf("%s: QEMU %s only; make nightly takes %s, too\n", t.Name(), byDay,
		strings.Join(left, " and "))
	return []string{byDay}
}

// inReleases runs a test with the releases of QEMU that are due, in parallel.
func inReleases(t *testing.T, all []string, byDay string, test func(*testing.T, string)) {
	t.Helper()
	inEachRelease(t, releases(t, all, byDay), test)
}

// inEachRelease runs a test with each of these releases, by day and at night.
func inEachRelease(t *testing.T, versions []string, test func(*testing.T, string)) {
	t.Helper()
	for _, version := range versions {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			progress(t)
			test(t, version)
		})
	}
}

// inOneByDay is inEach for tests of what is the same in each front end: a library of the guest's
// above its kernel driver, or a process of the host's that isn't the front end. By day they run in
// the first front end only, which boots fastest.
func inOneByDay(t *testing.T, test func(t *testing.T, vm frontEnd)) {
	t.Helper()
	first := wantedFrontEnds()[0]
	inEach(t, func(t *testing.T, vm frontEnd) {
		if !atNight && vm.name != first {
			skip(t, "by day it runs in %s only: make nightly runs it here, too", first)
		}
		test(t, vm)
	})
}

// times is how often to do something, by day and at night.
func times(byDay, night int) int {
	if atNight {
		return night
	}
	return byDay
}
