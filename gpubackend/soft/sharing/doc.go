// SPDX-License-Identifier: Apache-2.0

// Package sharing lets other processes of a guest have a software GPU's memory and events, and
// takes theirs: as files, whose sizes are sealed.
package sharing
