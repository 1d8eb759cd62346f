"""Archives: a student's, and a whole class's as Moodle and Canvas export it. Nothing in one is believed."""

from __future__ import annotations

import contextlib
import datetime
import os
import re
import zipfile
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from .roster import Person, filed_as, same, table, write_table
from .words import counted

MEMBERS = 20_000  # files of a class's export
DIRECTORY = 16 << 20  # bytes of its list of contents
MEMBER = 64 << 20  # bytes of one file, unpacked
STUDENT = 256 << 20  # bytes of one student's, unpacked
FILES = 500  # and in how many files
TOTAL = 8 << 30  # bytes of a class, unpacked
DEEPEST = 16  # folders within one another
# By systems; what else is hidden may be a student's: a display name may begin with a dot.
LEFT_BEHIND = re.compile(r"^__MACOSX/|(^|/)(\._[^/]*|\.DS_Store|Thumbs\.db)$")
LEFT_OUT = "left_out.txt"
NAMES = "names.csv"  # from which feedback gets the names under which a platform takes it back

MOODLE_FOLDER = re.compile(r".*_(?P<number>\d+)_assignsubmission_(?P<kind>[a-z]+)_?", re.S)
MOODLE_FILE = re.compile(r"_(\d+)_assignsubmission_([a-z]+)_")
# A name has no underscore, and Canvas writes LATE in capitals and names in small letters.
CANVAS_FILE = re.compile(r"[^_]+(?:_LATE)?_(?P<number>\d+)_(?P<upload>\d+)_(?P<file>.+)", re.S)


class Refused(ValueError):
    """Why something of an archive is not unpacked; without a word that stands in the archive."""


@dataclass
class Upload:
    """A file of an export: whose it is, and where it belongs in this student's folder."""

    member: zipfile.ZipInfo
    number: str
    place: PurePosixPath


@dataclass
class Unpacked:
    """What came of an export; what is told of single files may name students."""

    platform: str
    students: int = 0
    files: int = 0
    left_out: list[str] = field(default_factory=list)
    out: Path = Path()
    strangers: int = 0  # students of whom the roster, if there is one, says nothing
    sheet: bool = False  # whether a worksheet was given

    def __str__(self) -> str:
        files, students = counted(self.files, "file", "files"), counted(self.students, "student", "students")
        lines = [f"{files} of {students}, as {self.platform} exports them: {self.out}."]
        if self.strangers:
            what = f"{self.strangers} of {self.students} {'is' if self.strangers == 1 else 'are'} not in roster.csv"
            lines.append(f"{what}, and named as the export says. {self.advice}")
        if self.left_out:
            what = counted(len(self.left_out), "file was", "files were")
            lines.append(f"{what} left out; {self.out / LEFT_OUT} says which, and why.")
        return "\n".join(lines)

    @property
    def advice(self) -> str:
        """What would tell whose the others are."""
        if self.platform == "canvas":
            return "Write Canvas's numbers into the roster's column canvas, and unpack again."
        if self.sheet:
            return "The worksheet and the roster have no student, login or name of theirs in common."
        return "Name Moodle's grading worksheet, and unpack again into a new folder: WORKSHEET=worksheet.csv"


@contextlib.contextmanager
def archive_of(file: Path, longest: int) -> Iterator[zipfile.ZipFile]:
    """An archive whose list of contents has at most `longest` bytes. Raises Refused: it is none, or not whole."""
    try:
        with file.open("rb") as raw:
            end = zipfile._EndRecData(raw)  # as ZipFile itself finds its list
        if not end:
            raise Refused("it is no zip archive")
        if end[zipfile._ECD_SIZE] > longest:
            raise Refused("its list of contents is too long")
        archive = zipfile.ZipFile(file)
    except Refused:
        raise
    except Exception as error:  # zipfile's own are of many kinds where a record is broken
        raise Refused("it is no whole zip archive") from error
    with archive:
        yield archive


def path_of(member: zipfile.ZipInfo) -> PurePosixPath:
    """Where a member lies in its archive. Raises Refused: outside of it, or it is no plain file."""
    path = PurePosixPath(member.filename.replace("\\", "/"))
    kind = member.external_attr >> 28  # of Unix's modes: 8 is a file, 0 says nothing
    if path.is_absolute() or ".." in path.parts or re.match(r"[A-Za-z]:", member.filename) or not path.parts:
        raise Refused("its name leads out of the archive")
    if kind not in (0, 8):
        raise Refused("it is a link or no file")
    if len(path.parts) > DEEPEST or any(len(part.encode("utf8", "replace")) > 250 for part in path.parts):
        raise Refused("its name is too long")
    return path


def contents(archive: zipfile.ZipFile, member: zipfile.ZipInfo, most: int) -> bytes:
    """A member's bytes. Raises Refused: more than `most`, packed too tightly, encrypted, or damaged."""
    if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED) or member.flag_bits & 1:
        raise Refused("it is encrypted, or packed in a way that is not read")
    if member.file_size > most:
        raise Refused(f"it is larger than {most >> 20} MB, or claims to be")
    try:
        with archive.open(member) as file:
            found = file.read(most + 1)
    except Exception as error:  # zipfile's and zlib's own are of many kinds
        raise Refused("it is damaged") from error
    if len(found) > most:
        raise Refused(f"it is larger than {most >> 20} MB")
    return found


def as_moodle(path: PurePosixPath) -> tuple[str, str, PurePosixPath] | None:
    """Number, kind of upload and place of a file of Moodle's; None if it has not its form.

    A folder for every student, which ends in Moodle's own words; or all in one, where nothing of a student's stands
    before Moodle's words unless they are there twice, and then nobody can tell.
    """
    first, *rest = path.parts
    if rest:
        whole = MOODLE_FOLDER.fullmatch(first)
        return (whole["number"], whole["kind"], PurePosixPath(*rest)) if whole else None
    found = list(MOODLE_FILE.finditer(first))
    if not found or not first[found[0].end() :]:
        return None
    kind = found[0][2] if len(found) == 1 else ""
    return found[0][1], kind, PurePosixPath(first[found[0].end() :])


def as_canvas(path: PurePosixPath, numbers: set[str]) -> tuple[str, str, PurePosixPath] | None:
    """The same of Canvas's, in whose exports there are no folders. numbers: the roster's, by which a third is told."""
    found = CANVAS_FILE.fullmatch(path.name) if len(path.parts) == 1 else None
    if not found:
        return None
    # After "evil_77" the true number comes second: three in a row are either that or a file named "3_hw2.ipynb".
    doubtful = re.match(r"\d+_", found["file"]) and not (found["number"] in numbers and found["upload"] not in numbers)
    return found["number"], "" if doubtful else "file", PurePosixPath(found["file"])


def platform_of(paths: list[PurePosixPath]) -> str:
    """`moodle` or `canvas`, for the export as a whole: one file's name is its student's. Raises ValueError: neither."""
    moodle = sum(as_moodle(path) is not None for path in paths)
    canvas = sum(as_canvas(path, set()) is not None for path in paths)
    if moodle and (not canvas or moodle == len(paths) > canvas):
        return "moodle"
    if canvas and (not moodle or canvas == len(paths) > moodle):
        return "canvas"
    raise ValueError(
        f"export: wanted Moodle's or Canvas's; got {len(paths)} files, of which {moodle} have names as Moodle gives "
        f"them and {canvas} as Canvas does; say which: --from moodle or --from canvas (make: FROM=moodle)"
    )


def unpack(
    export: Path,
    out: Path,
    *,
    platform: str | None = None,
    people: list[Person] | None = None,
    worksheet: Path | None = None,
    trust_times: bool = False,
) -> Unpacked:
    """A folder for every student from an export; what is left out stands in `out`'s left_out.txt.

    platform: `moodle` or `canvas`, found out unless given. people: the roster, which names the folders. worksheet:
    Moodle's grading worksheet, which says whose the numbers of its exports are. trust_times: take the times in the
    export, which are the platform's where it writes such, as times.csv.
    Raises ValueError: no archive, no export, one of neither platform or of both; `out` is not empty.
    """
    people = people or []
    if out.is_symlink() or (out.exists() and (not out.is_dir() or any(out.iterdir()))):
        raise ValueError(f"{out}: wanted a folder that is new or empty, as old files would be mixed with new ones")
    numbers = {each.canvas for each in people if each.canvas}
    with archive_of(export, DIRECTORY) as archive:
        members = [m for m in archive.infolist() if not m.is_dir() and not LEFT_BEHIND.search(m.filename)]
        if len(members) > MEMBERS:
            raise ValueError(f"export: wanted at most {MEMBERS} files; got {len(members)}")
        if not members:
            raise ValueError("export: wanted a class's files; got an empty archive")
        made = Unpacked("", out=out)
        paths: dict[int, PurePosixPath] = {}
        for place, member in enumerate(members):
            try:
                paths[place] = path_of(member)
            except Refused as why:
                made.left_out.append(f"{member.filename!r}: {why}")
        made.platform = platform or platform_of(list(paths.values()))
        uploads = []
        for place, path in paths.items():
            found = as_moodle(path) if made.platform == "moodle" else as_canvas(path, numbers)
            if found is None or found[1] != "file":
                why = "two readings of its name" if found and not found[1] else "no student's file by its name"
                made.left_out.append(f"{members[place].filename!r}: {why}")
            else:
                uploads.append(Upload(members[place], found[0], found[2]))
        made.sheet = worksheet is not None
        came = write(archive, uploads, made, whose(uploads, made.platform, people, worksheet), trust_times)
    made.strangers = len(came - {each.student for each in people}) if people else 0
    text = "".join(line.encode("utf8", "backslashreplace").decode() + "\n" for line in made.left_out)
    if text:
        (out / LEFT_OUT).write_text(text)
    return made


def write(
    archive: zipfile.ZipFile, uploads: list[Upload], made: Unpacked, whose: dict[str, str], trust_times: bool
) -> set[str]:
    """Write the files, and count and list what happens: the students. Of two with one name neither is known."""
    out = made.out
    out.mkdir(parents=True, exist_ok=True)
    os.chmod(out, 0o700)
    shared = Counter((each.number, str(each.place).casefold()) for each in uploads)
    sizes: Counter[str] = Counter()
    moments: dict[str, list[tuple[int, ...]]] = {each.number: [] for each in uploads}
    for each in uploads:
        try:
            if shared[each.number, str(each.place).casefold()] > 1:
                raise Refused("another file has the same name")
            if len(moments[each.number]) >= FILES:
                raise Refused(f"there are more than {FILES} files of this student")
            left = min(MEMBER, STUDENT - sizes[each.number], TOTAL - sizes.total())
            data = contents(archive, each.member, max(0, left))
            sizes[each.number] += len(data)
            place = out / whose[each.number] / each.place
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(data)
        except (Refused, OSError) as why:
            reason = why if isinstance(why, Refused) else "it could not be written"
            made.left_out.append(f"{each.member.filename!r}: {reason}")
            continue
        moments[each.number].append(each.member.date_time)
    came = {whose[number]: max(times) for number, times in moments.items() if times}
    made.students, made.files = len(came), sum(map(len, moments.values()))
    # A student's notebook first: its name is the one that counts.
    uploads = sorted(uploads, key=lambda each: (each.place.suffix != ".ipynb", each.place))
    rows = [[whose[each.number], each.member.filename] for each in uploads if whose[each.number] in came]
    write_table(out / NAMES, [["student", "path"], *rows])
    if trust_times:  # these have no zone, and are taken for this machine's
        rows = [[who, "", datetime.datetime(*when).astimezone().isoformat()] for who, when in sorted(came.items())]
        write_table(out / "times.csv", [["student", "assignment", "time"], *rows])
    return set(came)


def whose(uploads: list[Upload], platform: str, people: list[Person], worksheet: Path | None) -> dict[str, str]:
    """The student's name for every number of an export; the number itself where nothing says more."""
    known = {getattr(each, platform): each.student for each in people if getattr(each, platform)}
    if worksheet:
        known |= {number: student for number, student in numbered(worksheet, people).items() if number not in known}
    meant = {number: known.get(number, number) for number in sorted({each.number for each in uploads})}
    shared = Counter(meant.values())
    return {number: student if shared[student] == 1 else f"{platform}-{number}" for number, student in meant.items()}


def numbered(worksheet: Path, people: list[Person]) -> dict[str, str]:
    """Number in Moodle's export -> student, from its grading worksheet, whose first two columns are the same anywhere.

    "Participant 12345" in a site's own language, then the full name; names of the other columns differ, and are looked
    through for what the roster knows, else for an e-mail address.
    """
    rows = table(worksheet, ())
    found = {}
    for row in rows:
        first, *others = list(row.values())
        number = re.search(r"(\d+)$", first)
        if not number:
            continue
        like = meant(others, people, ("student", "login")) or meant(others, people, ("name",))
        mail = [cell for cell in others if re.fullmatch(r"[^@\s]+@[^@\s]+\.[^@\s]+", cell)]
        if len(like) == 1:
            found[number[1]] = like.pop()
        elif mail and not like:
            found[number[1]] = filed_as(mail[0].casefold())
    return found


def meant(cells: list[str], people: list[Person], columns: tuple[str, ...]) -> set[str]:
    """Students of whom the roster says in one of the columns what stands in one of the cells."""
    said = [(getattr(each, column), each.student) for each in people for column in columns]
    return {student for known, student in said if known and any(same(known, cell) for cell in cells)}
