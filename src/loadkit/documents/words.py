"""The words of the archives, English and Chinese."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Words:
    """Templates and vocabulary of one language.

    Fitting relies on two things: every record and the header end in the same sign, and the question begins with a letter (a
    second newline would melt into the last record's ending in many tokenizers).
    """

    header: str
    record: str
    name: str
    question: str
    firsts: tuple[str, ...]
    seconds: tuple[str, ...]
    owners: tuple[str, ...]
    sites: tuple[str, ...]


def _listed(text: str) -> tuple[str, ...]:
    """Words that stand in a text, separated by commas."""
    return tuple(word.strip() for word in text.split(","))


ENGLISH = Words(
    header="Archive {number}, volume {volume}: approved project budgets.",
    record="Project {first} {second} {number}, owner {owner}, site {site}, budget {budget} EUR, reference {code}.",
    name="Project {first} {second} {number}",
    question=(
        "Question: what is the reference of {name} in the archive above? Answer in one sentence, then write a last line of the "
        "form\nANSWER: <reference>\n"
        "If the archive holds no such project, write ANSWER: NONE"
    ),
    firsts=_listed("""
        Amber, Ancient, Autumn, Azure, Brisk, Bronze, Calm, Cedar, Cobalt, Copper, Coral, Crimson, Distant, Dusky, Eager,
        Early, Ember, Fallow, Frosty, Gentle, Gilded, Golden, Granite, Hazel, Hidden, Hollow, Indigo, Ivory, Jade, Lasting,
        Lively, Lunar, Maple, Marble, Mellow, Misty, Narrow, Nimble, Noble, Northern, Ochre, Olive, Opal, Pale, Patient,
        Polar, Quiet, Rapid, Russet, Sable, Scarlet, Silent, Silver, Slender, Solar, Southern, Steady, Sunlit, Tawny, Tidal,
        Umber, Velvet, Vivid, Western, Winter
    """),
    seconds=_listed("""
        Anchor, Anvil, Badger, Bay, Beacon, Birch, Bridge, Brook, Canyon, Castle, Cliff, Compass, Condor, Crane, Creek, Delta,
        Dune, Eagle, Falcon, Ferry, Field, Fjord, Forge, Garden, Gate, Glacier, Grove, Harbour, Heron, Hill, Island, Junction,
        Kestrel, Lagoon, Lantern, Lark, Lodge, Meadow, Mill, Minnow, Orchard, Otter, Owl, Passage, Pine, Plateau, Prairie,
        Quarry, Reef, Ridge, River, Robin, Sparrow, Spring, Station, Summit, Swift, Terrace, Thicket, Tower, Trail, Valley,
        Viaduct, Willow, Wharf
    """),
    owners=_listed("""
        Lena Brandt, Tomas Novak, Aiko Mori, Wanjiru Kamau, Noor Haddad, Ingrid Solberg, Mateo Vargas, Ruby Okafor, Kaja Tamm,
        Pau Ferrer, Marguerite Delacroix, Ben Ito, Anna Li, Christopher Whitfield, Sanne de Vries, Ada Roy,
        Bartholomew Achterberg, Jo Kim, Priya Raghunathan, Otto Lund, Elisabeth von Hohenfels, Max Orr
    """),
    sites=_listed("""
        Utrecht, Lisbon, Kyoto, Nairobi, Montreal, Bergen, Lima, Perth, Tallinn, Valencia, Oslo, Rome, Bath, San Luis Obispo,
        Thessaloniki, Gothenburg, Ulm, Saint Petersburg, Cork, Clermont-Ferrand, Graz, Yokohama
    """),
)


CHINESE = Words(
    header="档案{number}，第{volume}卷：已批准的项目预算。",
    record="项目{first}{second}{number}，负责人{owner}，地点{site}，预算{budget}元，编号{code}。",
    name="项目{first}{second}{number}",
    question=(
        "问题：在上面的档案中，{name}的编号是什么？请用一句话回答，最后一行按如下形式写出：\n"
        "ANSWER: <编号>\n"
        "如果档案中没有这个项目，请写 ANSWER: NONE"
    ),
    firsts=_listed("""
        青松, 白鹭, 碧湖, 春山, 丹霞, 东篱, 飞泉, 枫林, 古渡, 海棠, 寒梅, 红枫, 虎丘, 华灯, 锦江,
        金桂, 静川, 兰舟, 蓝田, 凌云, 柳岸, 龙井, 绿洲, 明月, 南溪, 平原, 秋水, 清泉, 晴岚, 瑞雪,
        沙洲, 石桥, 松涛, 桃源, 天池, 铁杉, 望江, 西岭, 仙鹤, 新竹, 星河, 雪峰, 烟雨, 阳春, 银杏,
        玉泉, 云台, 紫藤, 翠屏, 朝阳
    """),
    seconds=_listed("""
        计划, 工程, 方案, 课题, 平台, 基地, 中心, 园区, 电站, 港口, 水库, 桥梁, 隧道, 学校, 医院,
        图书馆, 博物馆, 实验室, 观测站, 植物园, 体育场, 数据中心, 研究所, 码头, 展馆, 街区, 农场, 林场,
        车间, 仓库
    """),
    owners=_listed("""
        王敏, 李建国, 张伟, 刘洋, 陈静, 杨帆, 赵雪梅, 黄海涛, 周宁, 吴佳怡, 徐立, 孙晓东, 欧阳文清,
        司马长风, 马超, 朱婷婷, 胡斌, 郭子轩, 何莉, 诸葛明远, 林涛, 罗思雨
    """),
    sites=_listed("""
        苏州, 杭州, 成都, 西安, 昆明, 厦门, 哈尔滨, 呼和浩特, 乌鲁木齐, 桂林, 青岛, 大理, 齐齐哈尔,
        拉萨, 景德镇, 张家界, 无锡, 石家庄, 洛阳, 连云港, 福州, 秦皇岛
    """),
)
