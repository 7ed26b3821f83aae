/* SPDX-License-Identifier: Apache-2.0 */
#include "lost.h"

#include <endian.h>
#include <fts.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "link.h"

struct lost {
	uint32_t files;
	char dir[PATH_MAX]; /* which holds them all, below the layer: "" or "/a/b" */
};

static int is_cache(const FTSENT *e)
{
	return e->fts_level > 0 &&
	       (e->fts_name[0] == '.' || strcmp(e->fts_name, "__pycache__") == 0);
}

/* add counts a file, whose path in the layer is given. */
static void add(struct lost *l, const char *path)
{
	size_t n = strrchr(path, '/') - path;

	if (l->files++ == 0) {
		snprintf(l->dir, sizeof(l->dir), "%.*s", (int)n, path);
		return;
	}
	while (strncmp(l->dir, path, strlen(l->dir)) != 0 || path[strlen(l->dir)] != '/')
		*strrchr(l->dir, '/') = 0;
}

static void count_files(struct lost *l, const char *upper)
{
	char *roots[] = { (char *)upper, NULL };
	FTS *tree = fts_open(roots, FTS_PHYSICAL | FTS_NOCHDIR, NULL);
	FTSENT *e;

	while (tree && (e = fts_read(tree))) {
		if (is_cache(e))
			fts_set(tree, e, FTS_SKIP);
		else if (e->fts_info == FTS_F || e->fts_info == FTS_SL || e->fts_info == FTS_SLNONE)
			add(l, e->fts_path + strlen(upper));
	}
	if (tree)
		fts_close(tree);
}

void lost_tell(int link, const char *upper, const char *dir)
{
	static struct lost l;
	char frame[sizeof(uint32_t) + 2 * PATH_MAX];
	uint32_t files;
	int n;

	memset(&l, 0, sizeof(l));
	count_files(&l, upper);
	if (l.files == 0)
		return;
	files = htole32(l.files);
	memcpy(frame, &files, sizeof(files));
	n = snprintf(frame + sizeof(files), sizeof(frame) - sizeof(files), "%s%s", dir, l.dir);
	link_send(link, FRAME_LOST, frame, sizeof(files) + n);
}
