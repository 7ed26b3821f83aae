/* SPDX-License-Identifier: Apache-2.0 */
#include "layers.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "lost.h"
#include "problem.h"

#define LAYERS "/dev/shm/.layers"

/* A place, and its state. */
struct layer {
	const struct place *place;
	int lower; /* the host's directory, opened before anything lies over it */
	struct stat stat; /* its own */
	int over; /* a layer of ours lies over it */
	int kept; /* what is written there: for syncfs */
	char upper[64];
};

static struct layer *layers;
static size_t count;

/* holds tells whether the path b is a or lies below it. */
static int holds(const char *a, const char *b)
{
	size_t n = strlen(a);

	return strncmp(a, b, n) == 0 && (b[n] == 0 || b[n] == '/');
}

/*
 * If a file system is mounted on the host, virtiofs mounts it when it is opened; only then does an
 * overlay see it.
 */
static void open_lower(struct layer *l)
{
	l->lower = open(l->place->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (l->lower >= 0 && fstat(l->lower, &l->stat) < 0) {
		close(l->lower);
		l->lower = -1;
	}
}

/* served tells whether a directory is writable since a layer lies over a parent. */
static int served(const struct layer *l)
{
	for (const struct layer *p = layers; p < l; p++) {
		if (!holds(p->place->dir, l->place->dir))
			continue;
		if (p->kept >= 0 || (p->over && p->stat.st_dev == l->stat.st_dev))
			return 1;
	}
	return 0;
}

/*
 * hide_mounts makes directories in the layer for the places below that are file systems of their
 * own: an overlay refuses to look through such places of virtiofs.
 */
static void hide_mounts(const struct layer *l)
{
	char path[PATH_MAX];

	for (const struct layer *b = l + 1; b < layers + count; b++) {
		size_t at = strlen(l->upper), skip = strlen(l->place->dir);

		if (b->lower < 0 || b->stat.st_dev == l->stat.st_dev ||
		    !holds(l->place->dir, b->place->dir))
			continue;
		if ((size_t)snprintf(path, sizeof(path), "%s%s", l->upper, b->place->dir + skip) >=
		    sizeof(path))
			continue;
		for (char *s = strchr(path + at + 1, '/'); s; s = strchr(s + 1, '/')) {
			*s = 0;
			mkdir(path, 0755);
			*s = '/';
		}
		mkdir(path, 0755);
		setxattr(path, "trusted.overlay.opaque", "y", 1, 0);
	}
}

/* lay lays a writable layer, kept in memory, over a directory. */
static int lay(struct layer *l)
{
	char work[64], options[256];
	int n = (int)(l - layers);

	mkdir(LAYERS, 0700);
	snprintf(work, sizeof(work), LAYERS "/%d", n);
	mkdir(work, 0700);
	snprintf(work, sizeof(work), LAYERS "/%d/work", n);
	mkdir(work, 0700);
	snprintf(l->upper, sizeof(l->upper), LAYERS "/%d/upper", n);
	mkdir(l->upper, 0700);
	if (chown(l->upper, l->stat.st_uid, l->stat.st_gid) < 0 ||
	    chmod(l->upper, l->stat.st_mode & 07777) < 0)
		return -1;
	hide_mounts(l);
	snprintf(options, sizeof(options), "lowerdir=/proc/self/fd/%d,upperdir=%s,workdir=%s",
		 l->lower, l->upper, work);
	if (mount("layer", l->place->dir, "overlay", MS_NOSUID | MS_NODEV, options) < 0)
		return -1;
	l->over = 1;
	return 0;
}

/* keep mounts the host's directory for writing: by virtiofs under the place's tag, or by hostfs. */
static int keep(struct layer *l)
{
	const struct place *p = l->place;
	int r = p->tag ? mount(p->tag, p->dir, "virtiofs", MS_NOSUID | MS_NODEV, NULL) :
			 mount("write", p->dir, "hostfs", MS_NOSUID | MS_NODEV, p->dir);

	if (r < 0)
		return -1;
	l->kept = open(p->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return l->kept < 0 ? -1 : 0;
}

/* open_place makes a place writable. */
static int open_place(struct layer *l)
{
	struct statvfs v;

	if (l->place->keep)
		return keep(l);
	if (l->lower < 0 || served(l))
		return 0;
	if (fstatvfs(l->lower, &v) == 0 && !(v.f_flag & ST_RDONLY))
		return 0; /* of the VM's own: /dev/shm */
	return lay(l);
}

/* needed tells whether the program can't run without a place that it can write to. */
static int needed(const struct place *p)
{
	return p->keep || strcmp(p->dir, "/tmp") == 0;
}

int layers_mount(const struct job *job)
{
	int r = 0;

	count = job->place_count;
	layers = calloc(count + 1, sizeof(*layers));
	if (!layers)
		return problem("make layers");
	for (size_t i = 0; i < count; i++) {
		layers[i].place = &job->places[i];
		layers[i].kept = -1;
		open_lower(&layers[i]);
	}
	for (size_t i = 0; i < count && r == 0; i++)
		if (open_place(&layers[i]) < 0 && needed(layers[i].place))
			r = problem("make %s writable", layers[i].place->dir);
	for (size_t i = 0; i < count; i++)
		if (layers[i].lower >= 0)
			close(layers[i].lower);
	return r;
}

int layers_keep(void)
{
	for (size_t i = 0; i < count; i++)
		if (layers[i].kept >= 0 && syncfs(layers[i].kept) < 0)
			return problem("keep what was written below %s", layers[i].place->dir);
	return 0;
}

void layers_tell(int link)
{
	for (size_t i = 0; i < count; i++)
		if (layers[i].over)
			lost_tell(link, layers[i].upper, layers[i].place->dir);
}

void layers_library(const struct job *job)
{
	for (size_t i = 0; i < job->over_count; i++) {
		char options[PATH_MAX + 64];
		int ours = open(job->library, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		int theirs = open(job->overs[i], O_RDONLY | O_DIRECTORY | O_CLOEXEC);

		snprintf(options, sizeof(options), "lowerdir=/proc/self/fd/%d:/proc/self/fd/%d",
			 ours, theirs);
		if (ours >= 0 && theirs >= 0)
			mount("library", job->overs[i], "overlay", MS_NOSUID | MS_NODEV | MS_RDONLY,
			      options);
		close(ours);
		close(theirs);
	}
}
