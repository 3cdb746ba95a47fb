"""What all processes of a session did between two moments, by their live pages: what was replayed of the steady state,
which the summary of a whole run does not tell."""

from pathlib import Path

from live import NAMES, figures, open_page

COUNTED = NAMES[:10] + ("sync_points", "watchdog")   # those that only grow


def session(leader):
    """The processes of a session, by number."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            # The name before the last parenthesis may hold anything.
            words = path.read_text(errors="replace").rpartition(")")[2].split()
        except OSError:
            continue
        if int(words[3]) == leader:
            found.append(int(path.parent.name))
    return sorted(found)


class Steady:
    """Figures come at the first sync point behind each moment; a page stays readable when its process has gone."""

    def __init__(self, leader):
        self.pages = [page for page in map(open_page, session(leader)) if page]
        self.asked = self.ask()
        self.first = None

    def ask(self):
        """The number that `updates` has once the answer is there, by page."""
        asked = [page.updates + 2 & ~1 for page in self.pages]
        for page in self.pages:
            page.wanted = 1
        return asked

    def answers(self, asked):
        return [figures(page) if page.updates >= goal else None for page, goal in zip(self.pages, asked)]

    def end(self):
        """The second moment."""
        self.first = self.answers(self.asked)
        self.asked = self.ask()

    def difference(self):
        """Sums of all processes; empty where nothing could be had."""
        total = {}
        if self.first is None:
            return total
        for first, last in zip(self.first, self.answers(self.asked)):
            if first and last:
                for word in COUNTED:
                    total[word] = total.get(word, 0) + last[word] - first[word]
        return total
